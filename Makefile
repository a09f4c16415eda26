# A thin front of Meson. `make run` and `make test` are all that a newcomer needs: each installs what is missing.
BUILD ?= build
ASAN ?= build-asan
TSAN ?= build-tsan
PREFIX ?= /usr/local
MESON_OPTIONS ?=
# Warnings are errors in continuous integration (CI=true) only: another compiler may have more of them.
WERROR = $(if $(CI),-Dwerror=true)

.PHONY: all tests run test test-all test-kernels arm64 quick bench fuzz dist deb rpm image chart wheels gomodule site release install uninstall format deps clean
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
	@$(MAKE) --no-print-directory arm64 || echo "no build for arm64: what runs on its kernels is skipped"
	@tests/run --all

# Every kernel of tools/kernels, x86-64 and arm64, with all checks; writes the table of docs/agent.md.
test-kernels: tests
	@tools/deps all
	@$(MAKE) --no-print-directory arm64 || echo "no build for arm64: its kernels are skipped"
	@WICK_KERNEL_TABLE=$(CURDIR)/docs/agent.md tests/run --all test_kernel

# The cross build that the arm64 kernels run.
arm64:
	@tools/arm64-root .cache/arm64
	@[ -e build-arm64/build.ninja ] || meson setup build-arm64 --cross-file .cache/arm64/cross.ini >/dev/null
	@ninja -C build-arm64 src/cli/wick src/sdk/libwick-preload.so $(addprefix tests/unit/,test_elf test_python test_go_lang test_drift_stats)

# Unit tests of both builds and the structure checks, without pytest: a minute, for every commit.
quick: tests asan
	@tests/run --quick

bench: tests
	@tools/deps all
	@bench/run

# The archive of a release, for other systems than this: dist/wick-VERSION-linux-ARCH.tar.gz.
dist:
	@tools/deps build
	@packaging/release

# Packages for Debian and Ubuntu, of the same programs.
deb:
	@tools/deps build
	@packaging/deb/build

# Packages for Fedora, RHEL and SUSE, of the same programs.
rpm:
	@tools/deps build
	@packaging/rpm/build

# The container image, of the same programs: dist/wick-VERSION-ARCH.oci.tar.
image:
	@tools/deps build
	@packaging/image

# The Helm chart, and the manifests that it renders by default.
chart:
	@packaging/chart

# wick-profiler for pip, for each CPython that is here.
wheels:
	@tools/deps build
	@packaging/wheels

# The Go module of this commit, as a module proxy of files: dist/goproxy.
gomodule:
	@packaging/gomodule

# The documents, as a static site.
site:
	@packaging/site

# All of it, with a manifest, and a check of what was written.
release: dist deb rpm image chart wheels gomodule site
	@packaging/version --check
	@cd dist && sha256sum --check --strict SHA256SUMS
	@packaging/release-manifest

fuzz:
	@tools/fuzz $(TARGET)

# Of a tree that was built with another prefix, what contains the prefix is built again.
install: $(BUILD)/build.ninja
	@$(if $(filter file,$(origin PREFIX)),,meson configure $(BUILD) --prefix=$(PREFIX))
	@ninja -C $(BUILD)
	@meson install -C $(BUILD) --no-rebuild

uninstall:
	@$(DESTDIR)$(PREFIX)/bin/wick uninstall

format:
	@git ls-files '*.c' '*.h' '*.cc' | xargs clang-format -i
	@tests/python.py --write
	@tests/javascript.py --write

deps:
	@tools/deps all

clean:
	@rm -rf $(BUILD) $(ASAN) build-*
