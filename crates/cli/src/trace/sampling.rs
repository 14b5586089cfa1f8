//! How much is noted.

use lockswap_platform::Ns;
use lockswap_records::trace::MOST_STACK;
use lockswap_trace::Settings;

use crate::duration;

/// The options.
#[derive(clap::Args)]
pub struct SamplingArgs {
    /// Bytes of each stack that are copied: more reach further out; 0 for no stacks
    #[arg(long, value_name = "BYTES", default_value_t = Settings::default().stack_bytes,
        value_parser = clap::value_parser!(u32).range(0..=MOST_STACK as i64))]
    stack: u32,
    /// How far apart the samples of one thread are: nearer ones tell more and cost more; 0ms notes everything
    #[arg(long, value_name = "TIME", default_value = "4ms", value_parser = duration::with_unit)]
    spacing: Ns,
}

impl SamplingArgs {
    /// What the library is told.
    pub fn settings(&self) -> Settings {
        Settings { stack_bytes: self.stack, spacing_ns: self.spacing }
    }
}
