//! The upright axis of a picture.

/// Lines across, about.
const TICKS: f64 = 5.0;

/// From nothing to a round number, or from one power of ten to another.
pub(super) struct Scale {
    first: f64,
    end: f64,
    step: Step,
    /// Where `first` and `end` lie, in pixels from above.
    bottom: f64,
    top: f64,
}

enum Step {
    By(f64),
    TenTimes,
}

impl Scale {
    /// For these figures, between `bottom` and `top`. With equal heights for equal ratios all must be above 0.
    pub(super) fn new(
        figures: impl Iterator<Item = f64>,
        is_log: bool,
        (bottom, top): (f64, f64),
    ) -> Self {
        let (least, most) = figures.fold((f64::MAX, 0.0_f64), |(least, most), figure| {
            (least.min(figure), most.max(figure))
        });
        let most = most.max(1e-9);
        let (first, end, step) = if is_log && least > 0.0 {
            // One more below, or what is least has no bar.
            let first = (least.log10() - 1e-9).floor();
            let end = most.log10().ceil().max(first + 1.0);
            (10_f64.powf(first), 10_f64.powf(end), Step::TenTimes)
        } else {
            let step = round_step(most / TICKS);
            (0.0, (most / step).ceil() * step, Step::By(step))
        };
        Self {
            first,
            end,
            step,
            bottom,
            top,
        }
    }

    /// Figures that lines are drawn at, from the least on.
    pub(super) fn ticks(&self) -> impl Iterator<Item = f64> {
        let next = |tick: &f64| match self.step {
            Step::By(step) => Some(tick + step),
            Step::TenTimes => Some(tick * 10.0),
        };
        std::iter::successors(Some(self.first), next).take_while(|tick| *tick <= self.end * 1.0001)
    }

    /// Where a figure lies, in pixels from above.
    pub(super) fn y(&self, figure: f64) -> f64 {
        let share = match self.step {
            Step::By(_) => figure / self.end,
            Step::TenTimes => (figure / self.first).log10() / (self.end / self.first).log10(),
        };
        self.bottom - share * (self.bottom - self.top)
    }

    /// Where the largest figure may lie.
    pub(super) const fn top(&self) -> f64 {
        self.top
    }
}

/// The first of 1, 2, 5 and 10 times a power of ten that is not less.
fn round_step(rough: f64) -> f64 {
    let power = 10_f64.powf(rough.log10().floor());
    let mut steps = [1.0, 2.0, 5.0, 10.0].into_iter().map(|step| step * power);
    let step = steps.find(|step| *step >= rough);
    step.expect("ten times a power of ten is more")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(figures: &[f64], is_log: bool) -> (Vec<f64>, Vec<f64>) {
        let scale = Scale::new(figures.iter().copied(), is_log, (100.0, 0.0));
        let rounded = |figure: f64| (figure * 1e6).round() / 1e6;
        let places = figures.iter().map(|figure| rounded(scale.y(*figure)));
        (scale.ticks().map(rounded).collect(), places.collect())
    }

    #[test]
    fn scales_end_at_round_numbers_above_all_figures() {
        for (most, ticks) in [
            (4.46, vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
            (0.43, vec![0.0, 0.1, 0.2, 0.3, 0.4, 0.5]),
            (7.3, vec![0.0, 2.0, 4.0, 6.0, 8.0]),
            (1350.0, vec![0.0, 500.0, 1000.0, 1500.0]),
        ] {
            assert_eq!(of(&[most], false).0, ticks);
        }
        assert_eq!(of(&[0.0, 5.0, 10.0], false).1, [100.0, 50.0, 0.0]);
    }

    #[test]
    fn ratios_are_heights_from_a_power_of_ten_to_another() {
        let (ticks, places) = of(&[1.0, 10.0, 1000.0], true);
        assert_eq!(ticks, [0.1, 1.0, 10.0, 100.0, 1000.0]);
        assert_eq!(places, [75.0, 50.0, 0.0]);
        assert_eq!(of(&[2.0, 50.0], true).0, [1.0, 10.0, 100.0]);
        // Nothing has no ratio to anything.
        assert_eq!(of(&[0.0, 50.0], true).0, of(&[0.0, 50.0], false).0);
    }
}
