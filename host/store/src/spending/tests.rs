//! Tests of ceilings, days, crashes and sums, even with several stores of one home.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, SystemTime},
};

use proptest::prelude::*;

use super::*;
use crate::{
    Source,
    testing::{new_session, runtime},
};

fn cents(cents: i64) -> Money {
    Money::from_nanos(cents * Money::NANOS / 100)
}

fn budget(session: i64, day: i64) -> BudgetSettings {
    BudgetSettings { session: Some(cents(session)), day: Some(cents(day)) }
}

fn request(agent: AgentId, offers: &[Money]) -> NewRequest {
    let [tool, provider, model] = ["turn", "demo", "demo-1"].map(str::to_owned);
    NewRequest { agent, tool, provider, model, is_priced: true, offers: offers.to_vec() }
}

/// A home with its own clock.
struct Home {
    folder: tempfile::TempDir,
    now: Arc<AtomicI64>,
}

impl Home {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), now: Arc::new(AtomicI64::new(DAY_MS)) }
    }

    /// Opens the store as another process would.
    fn open(&self) -> Store {
        let now = Arc::clone(&self.now);
        let time = move || SystemTime::UNIX_EPOCH + Duration::from_millis(now.load(Ordering::Relaxed).cast_unsigned());
        Store::open_with(self.folder.path(), Source::new(time, rand_bytes)).unwrap()
    }
}

fn rand_bytes() -> [u8; 16] {
    *AgentId::random().as_bytes()
}

#[tokio::test]
async fn reserved_money_is_settled_or_kept() {
    let home = Home::new();
    let store = home.open();
    let (hold, agent) = new_session(&store).await;
    let limits = budget(100, 1_000);
    let reserve = async |offers: &[Money]| store.reserve(&hold, limits, request(agent, offers)).await.unwrap();
    let first = reserve(&[cents(40)]).await.unwrap();
    let second = reserve(&[cents(50)]).await.unwrap();
    let over = reserve(&[cents(20), cents(11)]).await.unwrap_err();
    assert_eq!((over.ceiling, over.most, over.needed), (Ceiling::Session, cents(100), cents(11)));
    assert_eq!(over.so_far.session, SpentMoney { spent: Money::ZERO, reserved: cents(90) });
    store.settle_spending(first, Some(cents(5)));
    store.settle_spending(second, None);
    // Settling it a second time has no effect.
    store.settle_spending(first, Some(cents(40)));
    store.settle().await.unwrap();
    let session = hold.session();
    let expected = SpentMoney { spent: cents(55), reserved: Money::ZERO };
    let spending = store.spending(session).await.unwrap();
    assert_eq!((spending.session, spending.today), (expected, expected));
    let [row] = &store.spending_rows(Some(session), None).await.unwrap()[..] else { panic!("one row") };
    assert_eq!((row.requests, row.unpriced, row.assumed), (2, 0, cents(50)));
    // A cost above the reservation counts in full.
    let third = reserve(&[cents(11)]).await.unwrap();
    store.settle_spending(third, Some(cents(90)));
    store.settle().await.unwrap();
    assert_eq!(store.spending(session).await.unwrap().session.spent, cents(145));
    // A request that costs nothing is always allowed.
    assert!(reserve(&[Money::ZERO]).await.is_ok());
    // The cost is kept when the session is removed.
    store.remove_session(session).await.unwrap();
    assert_eq!(store.spending(session).await.unwrap().today.spent, cents(145));
}

#[tokio::test]
async fn offer_takes_half_of_what_is_left_at_most() {
    let home = Home::new();
    let store = home.open();
    let (hold, agent) = new_session(&store).await;
    let offers = [80, 40, 20, 10].map(cents);
    let mut chosen = Vec::new();
    loop {
        match store.reserve(&hold, budget(100, 1_000), request(agent, &offers)).await.unwrap() {
            Ok(reservation) => chosen.push(reservation.offer),
            Err(over) => break assert_eq!(over.needed, cents(10)),
        }
    }
    // 100 are left, then 60, 40, 20, 10, 0.
    assert_eq!(chosen, [1, 2, 2, 3, 3]);
}

#[tokio::test]
async fn day_ends_at_midnight_utc() {
    let home = Home::new();
    let store = home.open();
    let (hold, agent) = new_session(&store).await;
    let limits = BudgetSettings { session: None, day: Some(cents(10)) };
    let reserve = async || store.reserve(&hold, limits, request(agent, &[cents(10)])).await.unwrap();
    home.now.store(2 * DAY_MS - 1, Ordering::Relaxed);
    let late = reserve().await.unwrap();
    let over = reserve().await.unwrap_err();
    assert_eq!((over.ceiling, over.so_far.day), (Ceiling::Day, 1));
    home.now.store(2 * DAY_MS, Ordering::Relaxed);
    let early = reserve().await.unwrap();
    assert_eq!(reserve().await.unwrap_err().so_far.day, 2);
    // A request that ends after midnight belongs to the day on which it began.
    store.settle_spending(late, Some(cents(1)));
    store.settle_spending(early, Some(cents(2)));
    store.settle().await.unwrap();
    let rows = store.spending_rows(None, None).await.unwrap();
    let days: Vec<_> = rows.iter().map(|row| (row.day, row.money.spent)).collect();
    assert_eq!(days, [(1, cents(1)), (2, cents(2))]);
    assert_eq!(store.spending_rows(None, Some(2)).await.unwrap(), rows[1..]);
}

/// As after `kill -9`: nothing is settled, and another process takes the session over.
#[tokio::test]
async fn reservation_of_a_dead_process_counts_as_spent() {
    let home = Home::new();
    let store = home.open();
    let (hold, agent) = new_session(&store).await;
    let limits = budget(100, 100);
    let lost = store.reserve(&hold, limits, request(agent, &[cents(70)])).await.unwrap().unwrap();
    let other = home.open();
    assert_eq!(other.spending(hold.session()).await.unwrap().session.reserved, cents(70));
    let taken = other.hold(hold.session()).await.unwrap();
    let kept = SpentMoney { spent: cents(70), reserved: Money::ZERO };
    assert_eq!(other.spending(hold.session()).await.unwrap().session, kept);
    assert!(other.reserve(&taken, limits, request(agent, &[cents(31)])).await.unwrap().is_err());
    let next = other.reserve(&taken, limits, request(agent, &[cents(30)])).await.unwrap().unwrap();
    // The process was only suspended: it may spend no more, and a late settlement changes nothing.
    assert!(matches!(store.reserve(&hold, limits, request(agent, &[Money::ZERO])).await, Err(StoreError::Fenced(_))));
    store.settle_spending(lost, Some(Money::ZERO));
    store.settle().await.unwrap();
    assert_eq!(other.spending(hold.session()).await.unwrap().session, SpentMoney { reserved: cents(30), ..kept });
    other.settle_spending(next, None);
    other.settle().await.unwrap();
}

/// Eight threads stand for eight processes. Each has its own store and session.
#[test]
fn day_is_never_exceeded_by_concurrent_processes() {
    let home = Home::new();
    let limits = BudgetSettings { session: None, day: Some(cents(100)) };
    // Opening the home once creates the database.
    drop(home.open());
    let granted: usize = std::thread::scope(|threads| {
        let run = || {
            let store = home.open();
            runtime().block_on(async {
                let (hold, agent) = new_session(&store).await;
                let mut granted = 0;
                for round in 0..20 {
                    let reserved = store.reserve(&hold, limits, request(agent, &[cents(3)])).await.unwrap();
                    let Ok(reservation) = reserved else { continue };
                    granted += 1;
                    if round % 2 == 0 {
                        store.settle_spending(reservation, Some(cents(2)));
                    }
                    let today = store.spending(hold.session()).await.unwrap().today;
                    assert!(today.total() <= cents(100), "{today:?}");
                }
                store.settle().await.unwrap();
                granted
            })
        };
        let running: Vec<_> = (0..8).map(|_| threads.spawn(run)).collect();
        running.into_iter().map(|thread| thread.join().unwrap()).sum()
    });
    let today = runtime().block_on(home.open().spending(patchbay_core::SessionId::random())).unwrap().today;
    // A cent or two may be left, because each request needs three.
    assert!((cents(98)..=cents(100)).contains(&today.total()) && granted >= 33, "{today:?} {granted}");
}

#[derive(Clone, Debug)]
enum Step {
    Reserve { agent: usize, session: usize, offers: Vec<i64> },
    Settle(prop::sample::Index, Option<i64>),
    NextDay,
    Restart(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let offers = prop::collection::vec(0i64..60, 1..4);
    prop_oneof![
        6 => (0usize..2, 0usize..2, offers).prop_map(|(agent, session, mut offers)| {
            offers.sort_unstable_by(|one, other| other.cmp(one));
            Step::Reserve { agent, session, offers }
        }),
        4 => (any::<prop::sample::Index>(), prop::option::of(0i64..60)).prop_map(|(which, cost)| Step::Settle(which, cost)),
        1 => Just(Step::NextDay),
        1 => (0usize..2).prop_map(Step::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// The store agrees with a simple model, and no ceiling is exceeded by requests that cost at most their reservation.
    #[test]
    fn sums_are_those_of_the_requests(steps in prop::collection::vec(step(), 1..40)) {
        runtime().block_on(async {
            let home = Home::new();
            let store = home.open();
            let limits = budget(100, 150);
            let mut sessions = [new_session(&store).await, new_session(&store).await];
            let (mut day, mut open) = (1, Vec::new());
            // By session and by day: spent, and reserved.
            let mut model: BTreeMap<(usize, i64), (i64, i64)> = BTreeMap::new();
            for step in steps {
                match step {
                    Step::Reserve { agent, session, offers } => {
                        let (hold, root) = &sessions[session];
                        let agent = if agent == 0 { *root } else { AgentId::random() };
                        let money: Vec<_> = offers.iter().copied().map(cents).collect();
                        let reserved = store.reserve(hold, limits, request(agent, &money)).await.unwrap();
                        let used = |of: &dyn Fn(&(usize, i64)) -> bool| -> i64 {
                            model.iter().filter(|(key, _)| of(key)).map(|(_, (spent, reserved))| spent + reserved).sum()
                        };
                        let left = (100 - used(&|key| key.0 == session)).min(150 - used(&|key| key.1 == day)).max(0);
                        match reserved {
                            Ok(reservation) => {
                                let amount = offers[reservation.offer];
                                prop_assert!(amount <= left, "{amount} of {left}");
                                model.entry((session, day)).or_default().1 += amount;
                                open.push((reservation, session, day, amount));
                            }
                            Err(over) => prop_assert!(over.needed > cents(left)),
                        }
                    }
                    Step::Settle(which, cost) if !open.is_empty() => {
                        let (reservation, session, day, amount) = open.remove(which.index(open.len()));
                        let cost = cost.map(|cost| cost.min(amount));
                        store.settle_spending(reservation, cost.map(cents));
                        let entry = model.entry((session, day)).or_default();
                        *entry = (entry.0 + cost.unwrap_or(amount), entry.1 - amount);
                    }
                    Step::Settle(..) => {}
                    Step::NextDay => {
                        day += 1;
                        home.now.fetch_add(DAY_MS, Ordering::Relaxed);
                    }
                    Step::Restart(session) => {
                        sessions[session].0 = store.hold(sessions[session].0.session()).await.unwrap();
                        for (_, _, day, amount) in open.extract_if(.., |(_, of, ..)| *of == session) {
                            let entry = model.entry((session, day)).or_default();
                            *entry = (entry.0 + amount, entry.1 - amount);
                        }
                    }
                }
                store.settle().await.unwrap();
                for (at, (hold, _)) in sessions.iter().enumerate() {
                    let sum = |of: &dyn Fn(&(usize, i64)) -> bool| {
                        let of = model.iter().filter(|(key, _)| of(key));
                        let (spent, reserved) = of.fold((0, 0), |sum, (_, one)| (sum.0 + one.0, sum.1 + one.1));
                        SpentMoney { spent: cents(spent), reserved: cents(reserved) }
                    };
                    let spending = store.spending(hold.session()).await.unwrap();
                    prop_assert_eq!(spending.session, sum(&|key| key.0 == at));
                    prop_assert_eq!(spending.today, sum(&|key| key.1 == day));
                    prop_assert!(spending.session.total() <= cents(100) && spending.today.total() <= cents(150));
                }
            }
            Ok(())
        })?;
    }
}
