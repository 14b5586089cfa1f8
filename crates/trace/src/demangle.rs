//! Names as the source has them.

use cpp_demangle::DemangleOptions;

/// The name of a C++ or Rust symbol as it stands in the source, without its parameters; other names as they are.
pub fn demangled(name: &str) -> String {
    if let Ok(rust) = rustc_demangle::try_demangle(name) {
        return format!("{rust:#}");
    }
    let options = DemangleOptions::new().no_params().no_return_type();
    // Other names can look like the code of a type: `x` is that of `long long`.
    let mangled = Some(name).filter(|name| name.starts_with("_Z"));
    let cpp = mangled
        .and_then(|name| cpp_demangle::Symbol::new(name).ok())
        .and_then(|symbol| symbol.demangle_with_options(&options).ok());
    cpp.unwrap_or_else(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_three_languages() {
        assert_eq!(demangled("_ZN3foo3barEi"), "foo::bar");
        assert_eq!(demangled("_ZZ4mainE5guard"), "main::guard");
        assert_eq!(demangled("_ZN4core3fmt9Formatter3pad17h0123456789abcdefE"), "core::fmt::Formatter::pad");
        assert_eq!(demangled("_RNvCs1234_7mycrate4main"), "mycrate::main");
        assert_eq!((demangled("cache_lock").as_str(), demangled("x").as_str()), ("cache_lock", "x"));
    }
}
