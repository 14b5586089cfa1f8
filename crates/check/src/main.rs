//! `lockswap-check`: checks the locks on machines that go through all executions, and checks these checks with
//! mutants.

#[cfg(panic = "unwind")]
mod command;

#[cfg(panic = "unwind")]
fn main() -> std::process::ExitCode {
    command::main()
}

#[cfg(not(panic = "unwind"))]
fn main() -> std::process::ExitCode {
    eprintln!(
        "lockswap-check: built without unwinding; run it with: cargo run --profile prove -p lockswap-check -- ..."
    );
    std::process::ExitCode::from(2)
}
