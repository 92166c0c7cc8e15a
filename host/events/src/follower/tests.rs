//! Tests of the follower.

use patchbay_core::SessionId;
use proptest::{collection, prelude::*, sample::Index};
use serde_json::json;

use super::*;

const VIEW: AgentId = AgentId::from_bytes([1; 16]);
const OTHER: AgentId = AgentId::from_bytes([2; 16]);

fn event(agent: AgentId, seq: u64, kind: EventKind) -> Event {
    Event { session: SessionId::from_bytes([9; 16]), agent, seq, kind }
}

fn piece(seq: u64, at: DeltaPosition, text: &str) -> Event {
    event(VIEW, seq, EventKind::Delta { block: DeltaKind::Text, text: text.to_owned(), at })
}

fn at(answer: u32, offset: u64, given_up: u32) -> DeltaPosition {
    DeltaPosition { turn: 5, answer, index: 0, offset, given_up }
}

/// The row of an answer after `given_up` attempts that broke off.
fn row(agent: AgentId, seq: u64, text: &str, given_up: u32) -> Event {
    let data = json!({
        "provider": "p", "adapter": "a", "model": "m", "usage": {}, "parts": [],
        "failed_attempts": {"given_up": given_up, "usage": {}},
    });
    event(agent, seq, EventKind::Message { kind: MessageKind::Assistant, content: text.to_owned(), data: Some(data) })
}

fn retrying() -> Retrying {
    let [provider, what, cause] = ["openai", "Server error", "overloaded"].map(str::to_owned);
    Retrying { provider, what, cause, wait_ms: 1_000, attempt: 1, of: 4 }
}

fn broke_off(answer: u32, given_up: u32) -> Event {
    event(VIEW, 5, EventKind::GivenUp { turn: 5, answer, given_up, retry: retrying() })
}

/// Returns the text shown for `events`. `|` stands for an attempt that broke off.
fn shown(follower: &mut AnswerFollower, events: &[Event]) -> String {
    let mut shown = String::new();
    for event in events {
        let Followed { broke_off, piece } = follower.follow(event);
        shown.extend(broke_off.map(|_| '|'));
        shown.extend(piece.map(|piece| piece.text.to_owned()));
    }
    shown
}

fn shown_at_once(events: &[Event]) -> String {
    shown(&mut AnswerFollower::new(VIEW), events)
}

#[test]
fn pieces_and_row_are_the_text_once() {
    let mut follower = AnswerFollower::new(VIEW);
    let first = piece(5, at(0, 0, 0), "One ");
    let attempt = AnswerAttempt { turn: 5, answer: 0, given_up: 0 };
    let expected = AnswerText { attempt: Some(attempt), block: DeltaKind::Text, text: "One " };
    assert_eq!(follower.follow(&first).piece, Some(expected));
    let events = [
        first,
        piece(5, at(0, 4, 0), "two"),
        row(VIEW, 6, "One two three", 0),
        piece(5, at(0, 7, 0), " three"),
        row(VIEW, 6, "One two three", 0),
        piece(6, at(1, 0, 0), " Next"),
        row(VIEW, 7, " Next", 0),
        row(VIEW, 9, " Last", 0),
    ];
    assert_eq!(shown(&mut follower, &events), "two three Next Last");
}

#[test]
fn text_behind_a_gap_comes_with_the_row() {
    let events = [piece(1, at(0, 0, 0), "One "), piece(1, at(0, 8, 0), "three"), piece(1, at(0, 13, 0), " four")];
    let mut follower = AnswerFollower::new(VIEW);
    assert_eq!(shown(&mut follower, &events), "One ");
    assert_eq!(shown(&mut follower, &[row(VIEW, 2, "One two three four", 0)]), "two three four");
}

#[test]
fn attempts_that_broke_off_are_reported_once() {
    let second =
        [piece(1, at(0, 0, 1), "The "), broke_off(0, 1), piece(1, at(0, 4, 0), "late"), piece(1, at(0, 4, 1), "end")];
    assert_eq!(shown_at_once(&[&[piece(1, at(0, 0, 0), "Half of")], &second[..]].concat()), "Half of|The end");
    assert_eq!(
        shown_at_once(&[piece(5, at(0, 0, 0), "Half of"), broke_off(0, 1), row(VIEW, 6, "Half a word", 1)]),
        "Half of|Half a word"
    );
    // The event of the second failure and its pieces were lost.
    assert_eq!(shown_at_once(&[piece(1, at(0, 0, 0), "Half"), row(VIEW, 2, "Half a word", 2)]), "Half|Half a word");
    // No text of the attempt was shown.
    assert_eq!(shown_at_once(&[piece(1, at(0, 9, 0), "lost before"), row(VIEW, 2, "All", 1)]), "All");
    let mut follower = AnswerFollower::new(VIEW);
    let event = broke_off(0, 1);
    assert_eq!(follower.follow(&event).broke_off.unwrap().line(), retrying().broke_off(false));
}

#[test]
fn turn_that_failed_leaves_nothing_to_the_next() {
    let kind = EventKind::TurnBegan { turn: 8, cause: patchbay_core::TurnCause::Person };
    let events = [piece(5, at(0, 0, 0), "Half"), event(VIEW, 8, kind), row(VIEW, 9, "Half as long", 0)];
    assert_eq!(shown_at_once(&events), "HalfHalf as long");
    // If the event is lost, a row with different text ends the attempt.
    assert_eq!(shown_at_once(&[piece(5, at(0, 0, 0), "Half"), row(VIEW, 9, "Other", 0)]), "Half|Other");
}

#[test]
fn thinking_is_shown_in_order_and_never_twice() {
    let think = |index, offset, text: &str| {
        let at = DeltaPosition { index, ..at(0, offset, 0) };
        event(VIEW, 1, EventKind::Delta { block: DeltaKind::Thinking, text: text.to_owned(), at })
    };
    let events = [
        think(0, 0, "Hm"),
        think(0, 0, "Hm"),
        think(0, 9, "lost before"),
        think(0, 2, "m. "),
        think(2, 0, "Next"),
        think(0, 3, "late"),
    ];
    assert_eq!(shown_at_once(&events), "Hmm. Next");
}

#[test]
fn agent_that_comes_into_view_continues_where_it_was_joined() {
    let attempt = AnswerAttempt { turn: 5, answer: 1, given_up: 0 };
    let mut follower = AnswerFollower::new(OTHER);
    follower.join(VIEW, 7, Some((attempt, "One ")));
    let events = [
        row(VIEW, 6, "The answer before", 0),
        piece(5, at(0, 0, 0), "The answer before"),
        piece(7, at(1, 0, 0), "One "),
        piece(7, at(1, 4, 0), "two "),
        row(OTHER, 8, "Not in view", 0),
        row(VIEW, 9, "One two three", 0),
    ];
    assert_eq!(shown(&mut follower, &events), "two three");
    // Moving the view forgets the received text, so the row returns all of it.
    assert!(follower.look_at(OTHER) && follower.look_at(VIEW) && !follower.look_at(VIEW));
    assert_eq!(shown(&mut follower, &[piece(9, at(2, 4, 0), "two"), row(VIEW, 10, "One two", 0)]), "One two");
}

/// The row of an answer of which a dying process stored only a part.
fn interrupted(seq: u64, text: &str) -> Event {
    let Event { kind: EventKind::Message { kind, content, data: Some(mut data) }, .. } = row(VIEW, seq, text, 0) else {
        unreachable!()
    };
    data["interrupted"] = json!(true);
    event(VIEW, seq, EventKind::Message { kind, content, data: Some(data) })
}

/// Wherever a follower stops, another follower returns the rest, from overlapping pieces and from the row.
#[test]
fn answer_is_resumed_at_any_byte() {
    let (text, think) = ("One two", |offset: u64, text: &str| {
        let at = DeltaPosition { index: 1, ..at(0, offset, 0) };
        event(VIEW, 5, EventKind::Delta { block: DeltaKind::Thinking, text: text.to_owned(), at })
    });
    for end in 0..=text.len() {
        let mut first = AnswerFollower::new(VIEW);
        let begun = shown(&mut first, &[think(0, "Hm"), piece(5, at(0, 0, 0), &text[..end])]);
        let received = first.received().unwrap();
        assert_eq!((received.text, received.thinking), (end, Some((1, 2))));
        let resumed = |events: &[Event]| {
            let mut follower = AnswerFollower::new(VIEW);
            follower.resume(received);
            begun.clone() + &shown(&mut follower, events)
        };
        let whole = format!("Hm{text} three");
        let row = row(VIEW, 6, "One two three", 0);
        assert_eq!(resumed(std::slice::from_ref(&row)), whole);
        let so_far = piece(5, at(0, 0, 0), text);
        assert_eq!(resumed(&[think(0, "Hm"), so_far.clone(), piece(5, at(0, 7, 0), " th"), row]), whole);
        assert_eq!(resumed(&[think(0, "Hmm."), so_far]), format!("Hm{}m.{}", &text[..end], &text[end..]));
    }
}

#[test]
fn text_that_a_dying_process_has_not_stored_is_reported() {
    let kept = |events: &[Event]| {
        let mut follower = AnswerFollower::new(VIEW);
        follower.follow(&piece(5, at(0, 0, 0), "One two"));
        let mut resumed = AnswerFollower::new(VIEW);
        resumed.resume(follower.received().unwrap());
        events.iter().find_map(|event| resumed.follow(event).broke_off.map(|broke_off| broke_off.kept))
    };
    assert_eq!(kept(&[interrupted(6, "One")]), Some(Some(3)));
    assert_eq!(kept(&[interrupted(6, "One two three")]), None);
    let said = EventKind::Message { kind: MessageKind::User, content: "Next".to_owned(), data: None };
    assert_eq!(kept(&[event(VIEW, 6, said)]), Some(Some(0)));
    assert_eq!(kept(&[row(VIEW, 6, "Other", 1)]), Some(None));
}

/// An answer of a session, with all attempts.
#[derive(Clone, Debug)]
struct Answer {
    agent: AgentId,
    turn: u64,
    index: u32,
    /// The texts of its attempts, in pieces. The last attempt becomes the row.
    attempts: Vec<Vec<String>>,
}

fn answers() -> impl Strategy<Value = Vec<Answer>> {
    let attempts = collection::vec(collection::vec("[ab]{1,3}", 0..4), 1..3);
    let answer = (any::<bool>(), any::<bool>(), attempts);
    collection::vec(answer, 1..6).prop_map(|answers| {
        let (mut turn, mut index) = (1, 0);
        let mut all = Vec::new();
        for (is_other, begins, attempts) in answers {
            let agent = if is_other { OTHER } else { VIEW };
            (turn, index) = if begins { (turn + 1, 0) } else { (turn, index + 1) };
            all.push(Answer { agent, turn, index, attempts });
        }
        all
    })
}

/// Returns the live events of an answer, which precede the row with the number `seq`.
fn live(answer: &Answer, seq: u64) -> Vec<Event> {
    let Answer { agent, turn, index, attempts } = answer;
    let mut events = Vec::new();
    for (given_up, pieces) in (0..).zip(attempts) {
        if given_up > 0 {
            let kind = EventKind::GivenUp { turn: *turn, answer: *index, given_up, retry: retrying() };
            events.push(event(*agent, seq - 1, kind));
        }
        let mut offset = 0;
        for text in pieces {
            let at = DeltaPosition { turn: *turn, answer: *index, index: 0, offset, given_up };
            events.push(event(*agent, seq - 1, EventKind::Delta { block: DeltaKind::Text, text: text.clone(), at }));
            offset += text.len() as u64;
        }
    }
    events
}

proptest! {
    /// Whatever live events are lost, late or duplicated, and whichever agent is in view: when an answer's row has been processed,
    /// all of its text has been shown exactly once since the last attempt that broke off.
    #[test]
    fn each_byte_is_shown_once(
        answers in answers(),
        lost in collection::vec(any::<bool>(), 64),
        late in collection::vec((any::<Index>(), any::<Index>()), 0..8),
        moves in collection::vec((any::<Index>(), any::<bool>()), 0..4),
    ) {
        // Rows arrive once and in order; live events can be lost, or arrive again later.
        let mut stream: Vec<Event> = Vec::new();
        for (seq, answer) in (2..).zip(&answers) {
            stream.extend(live(answer, seq));
            let given_up = answer.attempts.len() as u32 - 1;
            stream.push(row(answer.agent, seq, &answer.attempts.last().unwrap().concat(), given_up));
        }
        for (from, to) in late {
            let from = from.index(stream.len());
            let event = stream[from].clone();
            if !matches!(event.kind, EventKind::Message { .. }) {
                stream.insert(from + to.index(stream.len() - from), event);
            }
        }
        let mut lost = lost.into_iter().cycle();
        stream.retain(|event| matches!(event.kind, EventKind::Message { .. }) || !lost.next().unwrap());

        let mut follower = AnswerFollower::new(VIEW);
        let mut since_move = String::new();
        let count = stream.len();
        for (position, event) in stream.iter().enumerate() {
            for (_, is_other) in moves.iter().filter(|(index, _)| index.index(count) == position) {
                if follower.look_at(if *is_other { OTHER } else { VIEW }) {
                    since_move.clear();
                }
            }
            let Followed { broke_off, piece } = follower.follow(event);
            if broke_off.is_some() {
                since_move.clear();
            }
            since_move.extend(piece.map(|piece| piece.text.to_owned()));
            if let EventKind::Message { content, .. } = &event.kind && event.agent == follower.view() {
                prop_assert_eq!(&since_move, content);
                since_move.clear();
            }
        }
        prop_assert_eq!(since_move, "");
    }
}
