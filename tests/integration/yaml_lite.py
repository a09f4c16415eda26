"""Just enough YAML to write a config: JSON is YAML."""
import json


def dump(value):
    return json.dumps(value, indent=1)
