# A thin front of Meson. `make run` and `make test` are all that a newcomer needs: each installs what is missing.
BUILD ?= build
ASAN ?= build-asan
TSAN ?= build-tsan
PREFIX ?= /usr/local
MESON_OPTIONS ?=
# Warnings are errors in continuous integration (CI=true) only: another compiler may have more of them.
WERROR = $(if $(CI),-Dwerror=true)

.PHONY: all tests run test test-all quick bench fuzz install uninstall format deps clean
all: $(BUILD)/build.ninja
	@ninja -C $(BUILD)

$(BUILD)/build.ninja:
	@tools/deps build
	@meson setup $(BUILD) --prefix=$(PREFIX) $(WERROR) $(MESON_OPTIONS) >/dev/null

$(ASAN)/build.ninja:
	@tools/deps build
	@meson setup $(ASAN) -Db_sanitize=address,undefined -Db_lundef=false -Dbuildtype=debugoptimized $(WERROR) $(MESON_OPTIONS) >/dev/null

# What the tests need of the plain build.
tests: all
	@ninja -C $(BUILD) tests

asan: $(ASAN)/build.ninja
	@ninja -C $(ASAN) all tests

$(TSAN)/build.ninja:
	@tools/deps build
	@meson setup $(TSAN) -Db_sanitize=thread -Db_lundef=false -Dbuildtype=debugoptimized $(WERROR) $(MESON_OPTIONS) >/dev/null

tsan: $(TSAN)/build.ninja
	@ninja -C $(TSAN) threaded

run: all
	@tools/demo

test: tests asan tsan
	@tools/deps test
	@tests/run

test-all: tests asan tsan
	@tools/deps all
	@tests/run --all

# Unit tests of both builds and the structure checks, without pytest: a minute, for every commit.
quick: tests asan
	@tests/run --quick

bench: tests
	@tools/deps all
	@bench/run

fuzz:
	@tools/fuzz $(TARGET)

install: all
	@meson install -C $(BUILD) --no-rebuild

uninstall:
	@$(DESTDIR)$(PREFIX)/bin/wick uninstall

format:
	@git ls-files '*.c' '*.h' '*.cc' | xargs clang-format -i

deps:
	@tools/deps all

clean:
	@rm -rf $(BUILD) $(ASAN) build-*
