//! Limits how many requests one provider receives at once. The share is halved when the provider reports a rate limit
//! or an overload, and grows by one after as many answers as it has requests: additive increase, multiplicative decrease.
//! `requests` keeps a share for each provider.

/// A provider's share of the requests that a session may have under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ProviderShare {
    /// The initial size, which is also the maximum.
    most: u32,
    size: u32,
    under_way: u32,
    /// Number of answers since the share last changed.
    answers: u32,
    /// How often the share was halved.
    halvings: u64,
}

/// When a request began, counted in halvings of its share. A request that began before the last halving says
/// nothing about the current size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ShareEpoch(u64);

impl ProviderShare {
    /// Returns a share that has not been halved: `most` requests, at least one.
    pub(crate) fn new(most: u32) -> Self {
        let most = most.max(1);
        Self { most, size: most, under_way: 0, answers: 0, halvings: 0 }
    }

    /// Returns how many requests may be under way.
    pub(crate) fn size(&self) -> u32 {
        self.size
    }

    /// Returns whether no further request may begin.
    pub(crate) fn is_full(&self) -> bool {
        self.under_way >= self.size
    }

    /// Counts a request that begins; returns `None` if the share is full.
    pub(crate) fn begin(&mut self) -> Option<ShareEpoch> {
        if self.is_full() {
            return None;
        }
        self.under_way += 1;
        Some(ShareEpoch(self.halvings))
    }

    /// Notes that a request has ended, for whatever reason.
    pub(crate) fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// Halves the share, because the provider reported a rate limit or an overload. Requests that were under way together halve it
    /// only once.
    pub(crate) fn overloaded(&mut self, began: ShareEpoch) {
        if began.0 == self.halvings {
            self.size = (self.size / 2).max(1);
            self.answers = 0;
            self.halvings += 1;
        }
    }

    /// Notes a complete answer. As many answers as the share has requests make it one larger.
    pub(crate) fn answered(&mut self, began: ShareEpoch) {
        if began.0 != self.halvings || self.size >= self.most {
            return;
        }
        self.answers += 1;
        if self.answers >= self.size {
            self.size += 1;
            self.answers = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn requests_of_one_round_trip_halve_the_share_once() {
        let mut share = ProviderShare::new(16);
        let first: Vec<_> = std::iter::from_fn(|| share.begin()).collect();
        assert_eq!((first.len(), share.is_full()), (16, true));
        for began in &first {
            share.overloaded(*began);
            share.end();
        }
        assert_eq!(share.size(), 8);
        let mut second: Vec<_> = std::iter::from_fn(|| share.begin()).collect();
        assert_eq!(second.len(), 8);
        share.overloaded(second.remove(0));
        assert_eq!(share.size(), 4);
    }

    #[test]
    fn share_is_halved_down_to_one_request() {
        let mut share = ProviderShare::new(5);
        let mut sizes = Vec::new();
        for _ in 0..4 {
            let began = share.begin().unwrap();
            share.overloaded(began);
            share.end();
            sizes.push(share.size());
        }
        assert_eq!(sizes, [2, 1, 1, 1]);
    }

    #[test]
    fn share_of_answers_makes_it_one_larger() {
        let mut share = ProviderShare::new(4);
        let old = share.begin().unwrap();
        share.overloaded(old);
        share.end();
        assert_eq!(share.size(), 2);
        // An answer to a request from before the halving does not count.
        share.answered(old);
        let mut sizes = Vec::new();
        for _ in 0..7 {
            let began = share.begin().unwrap();
            share.answered(began);
            share.end();
            sizes.push(share.size());
        }
        assert_eq!(sizes, [2, 3, 3, 3, 4, 4, 4]);
    }

    #[test]
    fn requests_beyond_a_halved_share_wait_until_enough_have_ended() {
        let mut share = ProviderShare::new(4);
        let began: Vec<_> = std::iter::from_fn(|| share.begin()).collect();
        share.overloaded(began[0]);
        share.end();
        share.end();
        assert_eq!((share.size(), share.begin()), (2, None));
        share.end();
        assert!(share.begin().is_some());
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Begin,
        Answer(usize),
        Overload(usize),
        GiveUp(usize),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            3 => Just(Step::Begin),
            3 => any::<usize>().prop_map(Step::Answer),
            1 => any::<usize>().prop_map(Step::Overload),
            1 => any::<usize>().prop_map(Step::GiveUp),
        ]
    }

    proptest! {
        /// Whatever happens, the share stays between one and its maximum, changes only by the rules, and recovers.
        #[test]
        fn share_keeps_its_bounds_and_recovers(
            most in 1..=64_u32,
            steps in proptest::collection::vec(step(), 0..300),
        ) {
            let mut share = ProviderShare::new(most);
            let mut open: Vec<ShareEpoch> = Vec::new();
            for step in steps {
                let (before, under_way) = (share.size(), open.len());
                let mut take = |at: usize| (!open.is_empty()).then(|| open.swap_remove(at % open.len()));
                match step {
                    Step::Begin => match share.begin() {
                        Some(began) => {
                            prop_assert!((under_way as u32) < before);
                            open.push(began);
                        }
                        None => prop_assert!(under_way as u32 >= before),
                    },
                    Step::Answer(at) => if let Some(began) = take(at) {
                        share.answered(began);
                        share.end();
                        prop_assert!(share.size() == before || share.size() == before + 1);
                    },
                    Step::Overload(at) => if let Some(began) = take(at) {
                        share.overloaded(began);
                        prop_assert!(share.size() == before || share.size() == (before / 2).max(1));
                        // Another request of the same round trip changes nothing.
                        let halved = share.clone();
                        share.overloaded(began);
                        prop_assert_eq!(&share, &halved);
                        share.end();
                    },
                    Step::GiveUp(at) => if take(at).is_some() {
                        share.end();
                        prop_assert_eq!(share.size(), before);
                    },
                }
                prop_assert!((1..=most).contains(&share.size()));
            }
            for _ in &open {
                share.end();
            }
            for _ in 0..most * most {
                let began = share.begin().unwrap();
                share.answered(began);
                share.end();
            }
            prop_assert_eq!(share.size(), most);
        }
    }
}
