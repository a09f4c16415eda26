/* SPDX-License-Identifier: Apache-2.0 */
#include "demangle/demangle.h"

#include "tap.h"

/* mangled, pprof's default, pprof's demangle=full: as github.com/ianlancetaylor/demangle gives them. Many more are
 * compared in tests/integration/test_demangle.py. */
static const char *const names[][3] = {
    {"_Znwm", "operator new", "operator new(unsigned long)"},
    {"_ZN2ns3FooclEi", "ns::Foo::operator()", "ns::Foo::operator()(int)"},
    {"_ZNK2ns3FooclEi", "ns::Foo::operator()", "ns::Foo::operator()(int) const"},
    {"_ZN2ns12_GLOBAL__N_11fIiEEvT_", "ns::(anonymous namespace)::f", "void ns::(anonymous namespace)::f<int>(int)"},
    {"_ZNSt6vectorIiSaIiEE9push_backERKi", "std::vector::push_back",
     "std::vector<int, std::allocator<int> >::push_back(int const&)"},
    {"_RINvNtCs123_4core3ptr13drop_in_placelEC4main", "core::ptr::drop_in_place::<>",
     "core::ptr::drop_in_place::<i32>"},
    {"_ZN3foo17h05af221e174051e9E", "foo", "foo"},
    {"_ZN3std10sys_common9backtrace28__rust_begin_short_backtrace17h5b8a9c1d2e3f4a6bE",
     "std::sys_common::backtrace::__rust_begin_short_backtrace",
     "std::sys_common::backtrace::__rust_begin_short_backtrace"},
    {"_ZN4core3ptr85drop_in_place$LT$std..rt..lang_start$LT$$LP$$RP$$GT$..$u7b$$u7b$closure$u7d$$u7d$$GT$17h1234567890abcdefE",
     "core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>",
     "core::ptr::drop_in_place<std::rt::lang_start<()>::{{closure}}>"},
    {"_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()", "main::{lambda()#1}::operator()() const"},
    {"_ZN1AC1Ev", "A::A", "A::A()"},
    {"_ZNSsC1Ev", "std::basic_string::basic_string",
     "std::basic_string<char, std::char_traits<char>, std::allocator<char> >::basic_string()"},
    {"_ZN1AcviEv", "A::operator int", "A::operator int()"},
    {"_ZN1AcvT_IiEEv", "A::operator int", "A::operator int<int>()"},
    {"_Z1fIJidEEvDpT_", "f", "void f<int, double>(int, double)"},
    {"_ZTV3Foo", "vtable for Foo", "vtable for Foo"},
    {"_ZThn8_N3Foo3barEv", "non-virtual thunk to Foo::bar()", "non-virtual thunk to Foo::bar()"},
    {"_Z3foov.constprop.0", "foo", "foo()"},
    {"_GLOBAL__sub_I_main", "_GLOBAL__sub_I_main", "_GLOBAL__sub_I_main"},
    {"_GLOBAL__I__Z3foov", "global constructors keyed to foo()", "global constructors keyed to foo()"},
    {"___Z3foov_block_invoke_2", "invocation function for block in foo", "invocation function for block in foo()"},
    {"_Z3fooILb1ELi5EEvv", "foo", "void foo<true, 5>()"},
    {"_Z1fPFivE", "f", "f(int (*)())"},
    {"_Z1fRA5_Ki", "f", "f(int const (&) [5])"},
    {"_ZN9__gnu_cxx13new_allocatorIcE10deallocateEPcm", "__gnu_cxx::new_allocator::deallocate",
     "__gnu_cxx::new_allocator<char>::deallocate(char*, unsigned long)"},
    {"_RNvC6_123foo3bar", "123foo::bar", "123foo::bar"},
    {"_RNvMs_C4testNtB4_3Foo3new", "<test::Foo>::new", "<test::Foo>::new"},
    {"_RNvXs_C4testNtB4_3FooNtB4_3Bar3baz", "<test::Foo as test::Bar>::baz", "<test::Foo as test::Bar>::baz"},
    {"_RNCNvC4test4main0B3_", "test::main::{closure#0}", "test::main::{closure#0}"},
    {"_RNvC4testu8Gdel_5qa",
     "test::G"
     "\xc3"
     ""
     "\xb6"
     "del",
     "test::G"
     "\xc3"
     ""
     "\xb6"
     "del"},
    {"_Z1fIXadL_Z1gvEEEvv", "f", "void f<&g>()"},
    {"_ZNKSt3__112basic_stringIcNS_11char_traitsIcEENS_9allocatorIcEEE4sizeEv", "std::__1::basic_string::size",
     "std::__1::basic_string<char, std::__1::char_traits<char>, std::__1::allocator<char> >::size() const"},
    {"_Z1fDv4_f", "f", "f(float __vector(4))"},
    {"_Z1fM1AFivE", "f", "f(int (A::*)())"},
    {"_ZN5boost4_bi5list0clIPFvvENS0_5list0EEEvNS0_4typeIvEERT_RT0_i",
     "_ZN5boost4_bi5list0clIPFvvENS0_5list0EEEvNS0_4typeIvEERT_RT0_i",
     "_ZN5boost4_bi5list0clIPFvvENS0_5list0EEEvNS0_4typeIvEERT_RT0_i"},
    {"_Z1fIiEDTcl1gfp_EET_", "f", "decltype (g({parm#1})) f<int>(int)"},
    {"_ZZN1A1fEiENKUlvE_clEv", "A::f()::{lambda()#1}::operator()", "A::f(int)::{lambda()#1}::operator()() const"},
};

static void check(const char *name, enum demangle_mode mode, const char *want)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;

    buf_puts(&b, "before:");
    eq_int(demangle_function(str_from(name), mode, &b), 0);
    eq_str(str_slice(buf_str(&b), 7, b.n), str_from(want));
}

static void test_names(void)
{
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        check(names[i][0], DEMANGLE_SIMPLE, names[i][1]);
        check(names[i][0], DEMANGLE_FULL, names[i][2]);
        check(names[i][0], DEMANGLE_NONE, names[i][0]);
    }
}

/* Names that are demangled already, or are of other languages: pprof's heuristics. */
static void test_heuristics(void)
{
    check("void ns::(anonymous namespace)::f<int>(int)", DEMANGLE_SIMPLE, "void ns::::f");
    check("ns::Foo::operator()(int) const", DEMANGLE_SIMPLE, "ns::Foo::operator const");
    check("operator new(unsigned long)", DEMANGLE_SIMPLE, "operator new(unsigned long)");
    check("std::vector<int>::at(int)", DEMANGLE_TEMPLATES, "std::vector<int>::at");
    check("a::b>)(c::d", DEMANGLE_SIMPLE, "a::b>)(c::d");
    check("java.lang.Foo.<init>(int)", DEMANGLE_SIMPLE, "java.lang.Foo.<init>(int)");
    check("main.(*T[...]).M(x::y)", DEMANGLE_SIMPLE, "main.(*T[...]).M(x::y)");
    check("runtime.mallocgc", DEMANGLE_SIMPLE, "runtime.mallocgc");
    check("__Z3foov", DEMANGLE_SIMPLE, "foo");
    check("", DEMANGLE_SIMPLE, "");
    check("_", DEMANGLE_FULL, "_");
}

/* Deep, exponential and endless names end soon, as not mangled. */
static void test_bounds(void)
{
    static const char *const parts[][2] = {{"P", "i"}, {"1a", "i"}, {"N1aI", ""}, {"FvPFv", "E"}, {"RS_", ""}};

    for (size_t i = 0; i < ARRAY_SIZE(parts); i++) {
        _cleanup_(buf_done) struct buf name = BUF_INIT, out = BUF_INIT;

        buf_puts(&name, "_Z1f");
        for (int k = 0; k < 100000; k++)
            buf_puts(&name, parts[i][0]);
        buf_puts(&name, parts[i][1]);
        demangle(buf_str(&name), 0, &out);
        ok(out.n <= 2 * DEMANGLE_OUTPUT_MAX);
    }
    for (int kind = 0; kind < 2; kind++) {
        _cleanup_(buf_done) struct buf name = BUF_INIT, out = BUF_INIT;

        buf_puts(&name, kind ? "_RNvC1a" : "_Z1fI1aE");
        for (int k = 0; k < 60; k++) /* each doubles the one before */
            buf_printf(&name, kind ? "TB%c_B%c_E" : "St4pairIS%c_S%c_E", '0' + k % 9, '0' + k % 9);
        demangle(buf_str(&name), 0, &out);
        ok(out.n <= 2 * DEMANGLE_OUTPUT_MAX);
    }
}

static int torture(void)
{
    _cleanup_(buf_done) struct buf b = BUF_INIT;
    int r = demangle(STR("_ZNSt6vectorIiSaIiEE9push_backERKi"), 0, &b);

    return r == -EINVAL ? -ENOMEM : r; /* no memory for the tree counts as not mangled */
}

int main(void)
{
    tap_run(test_names);
    tap_run(test_heuristics);
    tap_run(test_bounds);
    tap_torture(torture);
    return tap_done();
}
