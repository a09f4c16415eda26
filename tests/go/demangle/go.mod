module wick.test/demangle

go 1.21

require github.com/ianlancetaylor/demangle v0.0.0-20250417193237-f615e6bd150b
