//! `varve inspect`.

use super::Exit;
use clap::Args;
use varve_format::layout;

/// Options of `varve inspect`.
#[derive(Args)]
pub(crate) struct Options {
    /// The layout of every structure on media, as Markdown tables
    #[arg(long, required = true)]
    layout: bool,
}

impl Options {
    /// Prints what was asked for.
    pub(crate) fn run(&self) -> Exit {
        assert!(self.layout, "the parser requires the only thing there is");
        print!("{}", layout::tables());
        Exit::Ok
    }
}
