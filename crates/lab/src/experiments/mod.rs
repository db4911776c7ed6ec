//! Published figures beside what the laboratory finds.
//!
//! An experiment is a list of independent jobs, plain data that any thread may run, and a function that
//! makes rows, plots and verdicts of their results. Reading order: [`job`] (what can be run), [`outcome`]
//! (what is told), the experiments, one file each, [`plot`], [`parameters`](mod@parameters) and [`page`] (how it looks).

mod array_16k;
mod array_io;
mod array_stripes;
mod drive_table;
mod grid;
mod job;
mod job_file;
mod look;
mod memory;
mod outcome;
mod page;
mod parameters;
mod plot;
mod processors;
mod scale;
mod time_bursts;
mod time_latency;
mod time_map_cache;
mod time_mixed;
mod time_production;
mod time_reads;
mod time_recovery;
mod time_sizes;
mod time_skew;
mod time_waf;
mod time_writes;
mod waf_drift;
mod waf_efficiency;
mod waf_fast_tier;
mod waf_flash;
mod waf_formula;
mod waf_isolation;
mod waf_policies;
mod waf_scale;

pub use job::{Finding, Job, JobError};
pub use outcome::{Origin, Outcome, Ran, Row, Verdict};
pub use page::{Chapter, page};
pub use parameters::parameters;
pub use plot::Plot;

/// What the user may choose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Seed of all places.
    pub seed: u64,
    /// Sizes are divided by this; ratios stay.
    pub scale: u32,
}

/// A published figure and how it is sought.
pub struct Experiment {
    /// Its name.
    pub name: &'static str,
    /// What it is about, in one sentence.
    pub title: &'static str,
    /// Document and figure it reproduces.
    pub source: &'static str,
    /// True if there is a picture of it.
    pub is_drawn: bool,
    /// Scale at which it takes a minute and still tells something. `None`: it has to be longer, or to have its size.
    pub quick: Option<u32>,
    /// False if it runs the same jobs whatever the scale, so that its figures are judged at any.
    is_scaled: bool,
    /// Largest scale at which it can be run and its figures are those of the whole, as measured (`docs/lab.md`, Size).
    pub scale_max: u32,
    /// What there is to run.
    pub jobs: fn(&Ask) -> Vec<Job>,
    /// What the findings, in the order of the jobs, come to.
    outcome: fn(&Ask, &[Finding]) -> Outcome,
}

impl Experiment {
    /// What it is run with if that is asked for: no smaller than its figures bear.
    #[must_use]
    pub const fn bounded(&self, ask: Ask) -> Ask {
        let scale = match ask.scale < self.scale_max {
            true => ask.scale,
            false => self.scale_max,
        };
        Ask { scale, ..ask }
    }

    /// What the findings, in the order of the jobs, come to.
    #[must_use]
    pub fn conclude(&self, ask: &Ask, findings: &[Finding]) -> Outcome {
        let mut outcome = (self.outcome)(ask, findings);
        if ask.scale > 1 && self.is_scaled {
            outcome.leave_unjudged();
        }
        outcome.parameters = findings.iter().filter_map(Finding::parameters).collect();
        for (of, stated) in findings.iter().filter_map(Finding::stated) {
            outcome.state(of, stated);
        }
        for plot in &mut outcome.plots {
            plot.set_note(&format!(
                "{}, seed {}, sizes by {}",
                self.name, ask.seed, ask.scale
            ));
        }
        outcome
    }
}

/// All of them.
pub const EXPERIMENTS: [&Experiment; 24] = [
    &drive_table::EXPERIMENT,
    &waf_formula::EXPERIMENT,
    &waf_policies::EXPERIMENT,
    &waf_fast_tier::EXPERIMENT,
    &waf_drift::EXPERIMENT,
    &waf_flash::EXPERIMENT,
    &waf_efficiency::EXPERIMENT,
    &waf_isolation::EXPERIMENT,
    &waf_scale::EXPERIMENT,
    &time_writes::EXPERIMENT,
    &time_sizes::EXPERIMENT,
    &time_waf::EXPERIMENT,
    &time_skew::EXPERIMENT,
    &time_reads::EXPERIMENT,
    &time_mixed::EXPERIMENT,
    &time_map_cache::EXPERIMENT,
    &time_latency::EXPERIMENT,
    &time_bursts::EXPERIMENT,
    &time_production::EXPERIMENT,
    &time_recovery::EXPERIMENT,
    &memory::EXPERIMENT,
    &array_io::EXPERIMENT,
    &array_16k::EXPERIMENT,
    &array_stripes::EXPERIMENT,
];

/// Those that tell something in a minute, each as it does.
pub fn quick(seed: u64) -> impl Iterator<Item = (&'static Experiment, Ask)> {
    let of = move |experiment: &'static Experiment| {
        let scale = experiment.quick?;
        Some((experiment, Ask { seed, scale }))
    };
    EXPERIMENTS.into_iter().filter_map(of)
}

/// The experiment of a name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS
        .into_iter()
        .find(|experiment| experiment.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An experiment that runs other jobs at a half is not judged there, and no other one is pardoned.
    #[test]
    fn what_is_scaled_is_told() {
        for experiment in EXPERIMENTS {
            let jobs = |scale| format!("{:?}", (experiment.jobs)(&Ask { seed: 1, scale }));
            let is_scaled = jobs(1) != jobs(2);
            assert_eq!(experiment.is_scaled, is_scaled, "{}", experiment.name);
        }
    }
}
