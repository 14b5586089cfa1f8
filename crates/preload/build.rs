//! Linker flags of the preload library: no C runtime files, first in the order of initialisation, never unloaded, bound
//! at load time (a lazy binding would run the dynamic linker inside a lock function).

fn main() {
    for argument in ["-nostartfiles", "-Wl,-z,initfirst", "-Wl,-z,nodelete", "-Wl,-z,now", "-Wl,-soname,liblockswap.so"]
    {
        println!("cargo::rustc-cdylib-link-arg={argument}");
    }
    println!("cargo::rerun-if-changed=build.rs");
}
