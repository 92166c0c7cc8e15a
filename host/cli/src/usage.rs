//! `patchbay usage`: prints what requests to models have cost in this home. `main` calls it.

use std::process::ExitCode;

use patchbay_core::{Money, text};
use patchbay_session::{Host, spending_line, spending_object};

use crate::{CliError, args::UsageList, day::Day, out::say};

pub(crate) async fn run(host: &Host, arguments: &UsageList) -> Result<ExitCode, CliError> {
    let rows = host.store().spending_rows(None, arguments.day.map(|Day(day)| day)).await?;
    if arguments.json {
        rows.iter().for_each(|row| say!("{}", spending_object(row)));
        return Ok(ExitCode::SUCCESS);
    }
    rows.iter().for_each(|row| say!("{}", spending_line(row, true)));
    let sum = |of: fn(&patchbay_store::SpendingRow) -> Money| rows.iter().map(of).fold(Money::ZERO, Money::plus);
    let (spent, reserved) = (sum(|row| row.money.spent), sum(|row| row.money.reserved));
    let requests = match rows.iter().fold(0_u64, |sum, row| sum.saturating_add(row.requests)) {
        1 => "1 request".to_owned(),
        requests => format!("{} requests", text::with_commas(requests)),
    };
    let reserved = if reserved == Money::ZERO { String::new() } else { format!(" and {reserved} USD reserved") };
    say!("Total: {requests}, {spent} USD spent{reserved}");
    Ok(ExitCode::SUCCESS)
}
