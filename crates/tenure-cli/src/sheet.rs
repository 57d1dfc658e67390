//! Names and what stands for them, one under the other, for people.

use crate::answer;
use crate::failure::Failure;

/// Writes a line for each row, the values in one column.
///
/// # Errors
/// As [`answer::line`].
pub(crate) fn sheet(rows: &[(&str, String)]) -> Result<(), Failure> {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, value) in rows {
        answer::line(&format!("{name:width$}  {value}"))?;
    }
    Ok(())
}
