//! Units of data and time, and their products.

use std::fmt::{self, Write};

use crate::{
    error::{Error, Result},
    limits::MAX_UNIT_POWER,
    number::Number,
};

/// A dimension: a power of data times a power of time. Both powers are zero for a plain number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dimension {
    pub(crate) data: i32,
    pub(crate) time: i32,
}

impl Dimension {
    pub(crate) const PLAIN: Self = Self { data: 0, time: 0 };
    const DATA: Self = Self { data: 1, time: 0 };
    const TIME: Self = Self { data: 0, time: 1 };

    pub(crate) fn is_plain(self) -> bool {
        self == Self::PLAIN
    }

    pub(crate) fn times(self, other: Self) -> Result<Self> {
        Self { data: self.data + other.data, time: self.time + other.time }.fit()
    }

    pub(crate) fn over(self, other: Self) -> Result<Self> {
        Self { data: self.data - other.data, time: self.time - other.time }.fit()
    }

    /// Raises to `power`; `None` if the power is far too high.
    pub(crate) fn pow(self, power: Option<i32>) -> Result<Self> {
        let times = |n: i32| if n == 0 { Some(0) } else { n.checked_mul(power?) };
        match (times(self.data), times(self.time)) {
            (Some(data), Some(time)) => Self { data, time }.fit(),
            _ => Err(too_high()),
        }
    }

    /// Checks the range of a result. Every result is checked, so the sums above cannot overflow.
    fn fit(self) -> Result<Self> {
        let limit = -MAX_UNIT_POWER..=MAX_UNIT_POWER;
        if limit.contains(&self.data) && limit.contains(&self.time) { Ok(self) } else { Err(too_high()) }
    }
}

fn too_high() -> Error {
    Error::too_large(format!("units can only have powers from -{MAX_UNIT_POWER} to {MAX_UNIT_POWER}"))
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.data, self.time) {
            (0, 0) => f.write_str("a plain number"),
            (1, -1) => f.write_str("data per time"),
            (data, time) => f.write_str(&powers([("data", data), ("time", time)])),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unit {
    prefix: &'static str,
    base: &'static str,
    /// The size in bits or in seconds, as a fraction.
    size: (u64, u64),
    dimension: Dimension,
}

impl Unit {
    fn name(self) -> String {
        format!("{}{}", self.prefix, self.base)
    }
}

/// Prefixes of bits and bytes. `K` is not one, because it is used for both 1000 and 1024.
const PREFIXES: [(&str, u64); 13] = [
    ("", 1),
    ("k", 1_000),
    ("M", 1_000_000),
    ("G", 1_000_000_000),
    ("T", 1_000_000_000_000),
    ("P", 1_000_000_000_000_000),
    ("E", 1_000_000_000_000_000_000),
    ("Ki", 1 << 10),
    ("Mi", 1 << 20),
    ("Gi", 1 << 30),
    ("Ti", 1 << 40),
    ("Pi", 1 << 50),
    ("Ei", 1 << 60),
];

/// Units that accept a prefix, with their bits.
const DATA: [(&str, u64); 2] = [("bit", 1), ("B", 8)];

/// Units of time in seconds. Month and year are missing because they have no fixed length.
const TIME: [(&str, u64, u64); 8] = [
    ("ns", 1, 1_000_000_000),
    ("us", 1, 1_000_000),
    ("ms", 1, 1_000),
    ("s", 1, 1),
    ("min", 60, 1),
    ("h", 3_600, 1),
    ("d", 86_400, 1),
    ("week", 604_800, 1),
];

/// Other spellings and their meaning.
const ALIASES: [(&str, &str); 28] = [
    ("bits", "bit"),
    ("byte", "B"),
    ("bytes", "B"),
    // The micro sign and the Greek letter that looks the same.
    ("\u{b5}s", "us"),
    ("\u{3bc}s", "us"),
    ("nanosecond", "ns"),
    ("nanoseconds", "ns"),
    ("microsecond", "us"),
    ("microseconds", "us"),
    ("millisecond", "ms"),
    ("milliseconds", "ms"),
    ("sec", "s"),
    ("second", "s"),
    ("seconds", "s"),
    ("minute", "min"),
    ("minutes", "min"),
    ("hr", "h"),
    ("hour", "h"),
    ("hours", "h"),
    ("day", "d"),
    ("days", "d"),
    ("weeks", "week"),
    ("bps", "bit/s"),
    ("kbps", "kbit/s"),
    ("Mbps", "Mbit/s"),
    ("Gbps", "Gbit/s"),
    ("Tbps", "Tbit/s"),
    ("Pbps", "Pbit/s"),
];

fn units() -> impl Iterator<Item = Unit> {
    let data = DATA.iter().flat_map(|&(base, bits)| {
        PREFIXES.iter().map(move |&(prefix, size)| {
            // The largest unit, EiB, has 2^63 bits.
            Unit { prefix, base, size: (bits * size, 1), dimension: Dimension::DATA }
        })
    });
    let time =
        TIME.iter().map(|&(base, num, den)| Unit { prefix: "", base, size: (num, den), dimension: Dimension::TIME });
    data.chain(time)
}

fn find(name: &str) -> Option<Unit> {
    units().find(|unit| name.strip_prefix(unit.prefix) == Some(unit.base))
}

/// A product of units, such as `MB/s`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Measure(Vec<(Unit, i32)>);

impl Measure {
    /// Returns the measure of a name: a unit, or a named rate such as `Mbps`.
    pub(crate) fn named(name: &str) -> Option<Self> {
        let name = ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, meaning)| meaning);
        match name.split_once('/') {
            Some((upper, lower)) => Some(Self(vec![(find(upper)?, 1), (find(lower)?, -1)])),
            None => Some(Self(vec![(find(name)?, 1)])),
        }
    }

    /// Raises to `power`, with a check against the limit.
    pub(crate) fn pow(mut self, power: i32) -> Result<Self> {
        for (_, own) in &mut self.0 {
            *own = own
                .checked_mul(power)
                .filter(|p| p.unsigned_abs() <= MAX_UNIT_POWER.unsigned_abs())
                .ok_or_else(too_high)?;
        }
        Ok(self)
    }

    pub(crate) fn times(mut self, other: Self) -> Self {
        self.0.extend(other.0);
        self
    }

    pub(crate) fn over(mut self, other: Self) -> Self {
        self.0.extend(other.0.into_iter().map(|(unit, power)| (unit, -power)));
        self
    }

    pub(crate) fn dimension(&self) -> Result<Dimension> {
        self.0.iter().try_fold(Dimension::PLAIN, |sum, (unit, power)| sum.times(unit.dimension.pow(Some(*power))?))
    }

    /// Returns its size in bits and seconds.
    pub(crate) fn size(&self) -> Result<Number> {
        self.0.iter().try_fold(1.into(), |product: Number, (unit, power)| {
            product.mul(&Number::ratio(unit.size.0, unit.size.1)?.pow(&(*power).into())?)
        })
    }
}

impl fmt::Display for Measure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&powers(self.0.iter().map(|(unit, power)| (unit.name(), *power))))
    }
}

/// Formats as `a*b/c^2`, or as `c^-2` without a numerator.
fn powers<S: AsRef<str>>(parts: impl IntoIterator<Item = (S, i32)>) -> String {
    let (above, below): (Vec<_>, Vec<_>) =
        parts.into_iter().filter(|(_, power)| *power != 0).partition(|(_, power)| *power > 0);
    let nothing_above = above.is_empty();
    let mut text = String::new();
    for (name, power) in above.into_iter().chain(below) {
        let (join, power) = match power {
            ..0 if !nothing_above => ("/", -power),
            _ if text.is_empty() => ("", power),
            _ => ("*", power),
        };
        text.push_str(join);
        text.push_str(name.as_ref());
        if power != 1 {
            // Writing to a string cannot fail.
            let _ = write!(text, "^{power}");
        }
    }
    text
}

/// The first unit of data and the first unit of time in an expression. The answer is printed in these.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    data: Option<Unit>,
    time: Option<Unit>,
}

impl Seen {
    pub(crate) fn note(&mut self, measure: &Measure) {
        for (unit, _) in &measure.0 {
            let first = if unit.dimension == Dimension::DATA { &mut self.data } else { &mut self.time };
            first.get_or_insert(*unit);
        }
    }

    /// Returns the units in which to print a quantity of this dimension.
    pub(crate) fn measure(&self, dimension: Dimension) -> Measure {
        let parts = [(self.data, dimension.data), (self.time, dimension.time)];
        Measure(parts.into_iter().filter(|(_, power)| *power != 0).filter_map(|(u, p)| Some((u?, p))).collect())
    }
}

/// Returns known units similar to the unknown `name`: they differ in upper or lower case, or have `b` for bits.
pub(crate) fn alike(name: &str) -> Vec<String> {
    let name = name.to_lowercase();
    let short = |unit: &Unit| unit.name().to_lowercase().replace("bit", "b");
    let long = |unit: &Unit| unit.name().to_lowercase();
    // 'K' is not a prefix, so both meanings are suggested for `KB`.
    let binary = |unit: &Unit| short(unit).replacen('i', "", 1);
    units()
        .filter(|unit| {
            let close = short(unit) == name || long(unit) == name;
            close || (unit.prefix == "Ki" && unit.base == "B" && binary(unit) == name)
        })
        .map(Unit::name)
        .collect()
}

/// Lists every unit in one line, for an error without a similar unit.
pub(crate) const LIST: &str =
    "bit, B, both with k M G T P E or Ki Mi Gi Ti Pi Ei before; ns, us, ms, s, min, h, d, week";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Kind;

    fn size(name: &str) -> Number {
        Measure::named(name).unwrap_or_else(|| panic!("{name}")).size().unwrap()
    }

    #[test]
    fn sizes() {
        for (name, expected) in [
            ("bit", 1u64),
            ("B", 8),
            ("bytes", 8),
            ("kB", 8_000),
            ("KiB", 8_192),
            ("MB", 8_000_000),
            ("GiB", 8 << 30),
            ("TB", 8_000_000_000_000),
            ("PiB", 8 << 50),
            ("EiB", 8 << 60),
            ("EB", 8_000_000_000_000_000_000),
            ("kbit", 1_000),
            ("Mbit", 1_000_000),
            ("Kibit", 1_024),
            ("Gbps", 1_000_000_000),
            ("s", 1),
            ("min", 60),
            ("h", 3_600),
            ("d", 86_400),
            ("week", 604_800),
        ] {
            assert_eq!(size(name), expected.into(), "{name}");
        }
        for (name, parts) in [("ms", 1_000), ("us", 1_000_000), ("\u{b5}s", 1_000_000), ("ns", 1_000_000_000u64)] {
            assert_eq!(size(name), Number::ratio(1, parts).unwrap(), "{name}");
        }
    }

    #[test]
    fn unit_names_are_unambiguous() {
        let names: Vec<_> = units().map(Unit::name).collect();
        for (at, name) in names.iter().enumerate() {
            assert!(!names[..at].contains(name), "{name}");
            assert_eq!(find(name).unwrap().name(), *name);
        }
        for (alias, _) in ALIASES {
            assert!(Measure::named(alias).is_some(), "{alias}");
            assert!(find(alias).is_none(), "{alias}");
        }
    }

    #[test]
    fn unknown_units_are_refused() {
        for name in ["", "K", "k", "KB", "b", "Mb", "m", "S", "kis", "ks", "month", "in", "to"] {
            assert_eq!(Measure::named(name), None, "{name}");
        }
    }

    #[test]
    fn suggestions() {
        for (name, expected) in [
            ("KB", "kbit kB KiB"),
            ("mb", "Mbit MB"),
            ("Mb", "Mbit MB"),
            ("gib", "Gibit GiB"),
            ("b", "bit B"),
            ("H", "h"),
            ("MIN", "min"),
            ("furlong", ""),
        ] {
            assert_eq!(alike(name).join(" "), expected, "{name}");
        }
    }

    #[test]
    fn display() {
        let m = |name: &str| Measure::named(name).unwrap();
        assert_eq!(m("Mbps").to_string(), "Mbit/s");
        assert_eq!(m("s").pow(-1).unwrap().to_string(), "s^-1");
        assert_eq!(m("s").pow(-1).unwrap().times(m("B")).to_string(), "B/s");
        assert_eq!(m("MB").times(m("s").pow(2).unwrap()).to_string(), "MB*s^2");
        assert_eq!(m("MB").over(m("s").pow(2).unwrap()).to_string(), "MB/s^2");
        assert_eq!(Measure::default().over(m("B")).over(m("s")).to_string(), "B^-1*s^-1");
    }

    #[test]
    fn dimensions() {
        let rate = Measure::named("Mbps").unwrap().dimension().unwrap();
        assert_eq!(rate.to_string(), "data per time");
        assert_eq!(rate.pow(Some(2)).unwrap().to_string(), "data^2/time^2");
        assert_eq!(Dimension::DATA.over(rate).unwrap(), Dimension::TIME);
        assert_eq!(Dimension::TIME.times(Dimension::DATA).unwrap().to_string(), "data*time");
        assert_eq!(Dimension::PLAIN.pow(None).unwrap().to_string(), "a plain number");
    }

    #[test]
    fn powers_of_units_are_bounded() {
        assert_eq!(Dimension::TIME.pow(None).unwrap_err().kind, Kind::TooLarge);
        assert_eq!(Dimension::TIME.pow(Some(101)).unwrap_err().kind, Kind::TooLarge);
        assert_eq!(Dimension::TIME.pow(Some(i32::MIN)).unwrap_err().kind, Kind::TooLarge);
        let high = Dimension::TIME.pow(Some(-100)).unwrap();
        assert_eq!(high.over(Dimension::TIME).unwrap_err().kind, Kind::TooLarge);
        assert_eq!(Measure::named("s").unwrap().pow(101).unwrap_err().kind, Kind::TooLarge);
        assert_eq!(Measure::named("s").unwrap().pow(i32::MIN).unwrap_err().kind, Kind::TooLarge);
    }

    #[test]
    fn answers_use_the_first_units_of_the_expression() {
        let mut seen = Seen::default();
        for name in ["GiB", "Mbps", "h"] {
            seen.note(&Measure::named(name).unwrap());
        }
        assert_eq!(seen.measure(Dimension::DATA).to_string(), "GiB");
        assert_eq!(seen.measure(Dimension { data: 1, time: -1 }).to_string(), "GiB/s");
        assert_eq!(seen.measure(Dimension::PLAIN), Measure::default());
    }
}
