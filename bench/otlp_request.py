"""A request of the size that the Collector was measured with: 1000 samples, 300 stacks of about 30 frames, 800 functions,
1200 locations, some 2400 strings, 190 kB. bench/otlp_request.py OUT.pb [seed]"""
import random
import sys

from opentelemetry.proto.profiles.v1development import profiles_pb2 as pb


def make(seed=1, samples=1000, stacks=300, functions=800, locations=1200):
    rnd = random.Random(seed)
    m = pb.ProfilesData()
    d = m.dictionary
    strings = {"": 0}

    def s(text):
        return strings.setdefault(text, len(strings))

    for table in (d.mapping_table, d.location_table, d.function_table, d.link_table, d.attribute_table, d.stack_table):
        table.add()
    for i in range(20):
        a = d.attribute_table.add(key_strindex=s("process.executable.build_id.gnu"))
        a.value.string_value = "%040x" % rnd.getrandbits(160)
        x = d.mapping_table.add(memory_start=i << 28, memory_limit=(i << 28) + (1 << 24), filename_strindex=s(f"/usr/lib/lib{i}.so"))
        x.attribute_indices.append(len(d.attribute_table) - 1)
    frame_type = len(d.attribute_table)
    d.attribute_table.add(key_strindex=s("profile.frame.type")).value.string_value = "native"
    for i in range(functions):
        name = "".join(rnd.choice("abcdefghijklmnopqrstuvwxyz_") for _ in range(rnd.randint(12, 48)))
        d.function_table.add(name_strindex=s(f"app::{name}({i})"), system_name_strindex=s(f"_ZN3app{len(name)}{name}Ev"),
                             filename_strindex=s(f"/src/module{i % 150}/{name[:8]}.cc"), start_line=rnd.randint(1, 3000))
    for i in range(locations):
        x = d.location_table.add(mapping_index=rnd.randint(1, 20), address=rnd.getrandbits(24))
        x.attribute_indices.append(frame_type)
        for _ in range(1 if rnd.random() < .8 else 2):
            x.lines.add(function_index=rnd.randint(1, functions), line=rnd.randint(1, 3000))
    for i in range(stacks):
        d.stack_table.add().location_indices.extend(rnd.randint(1, locations) for _ in range(rnd.randint(15, 45)))
    threads = len(d.attribute_table)
    for i in range(64):
        d.attribute_table.add(key_strindex=s("thread.name")).value.string_value = f"worker-{i}"
    r = m.resource_profiles.add()
    for k, v in {"service.name": "checkout", "service.version": "1.4.2", "service.namespace": "shop", "host.name": "node-17",
                 "k8s.pod.name": f"checkout-{seed}", "k8s.namespace.name": "prod", "telemetry.sdk.language": "cpp"}.items():
        r.resource.attributes.add(key=k).value.string_value = v
    scope = r.scope_profiles.add()
    scope.scope.name = "bench"
    p = scope.profiles.add(time_unix_nano=1767225600000000000, duration_nano=5000000000, period=52631578)
    p.sample_type.type_strindex, p.sample_type.unit_strindex = s("samples"), s("count")
    p.period_type.type_strindex, p.period_type.unit_strindex = s("cpu"), s("nanoseconds")
    for i in range(samples):
        x = p.samples.add(stack_index=rnd.randint(1, stacks))
        x.attribute_indices.append(threads + rnd.randrange(64))
        x.values.append(1)
        x.timestamps_unix_nano.append(1767225600000000000 + rnd.getrandbits(32))
    d.string_table.extend(strings)
    return m


if __name__ == "__main__":
    data = make(int(sys.argv[2]) if len(sys.argv) > 2 else 1).SerializeToString()
    open(sys.argv[1], "wb").write(data)
    print(len(data))
