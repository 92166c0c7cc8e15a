//! Lines in the data of a user's message that tell the model about the user's actions since the previous message. `session`
//! writes the lines, and `agent` sends them before the message.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// The notices in the data of a row.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MessageNotices {
    notices: Vec<String>,
}

impl MessageNotices {
    /// Returns the notices in a row's data; none if the data is of another kind.
    pub fn from_data(data: Option<&Value>) -> Vec<String> {
        data.and_then(|data| Self::deserialize(data).ok()).unwrap_or_default().notices
    }

    /// Returns a row's `data` with these notices added.
    pub fn add_to_data(data: Option<Value>, notices: Vec<String>) -> Option<Value> {
        if notices.is_empty() {
            return data;
        }
        let mut data = match data {
            Some(Value::Object(data)) => data,
            _ => Map::new(),
        };
        data.insert("notices".to_owned(), notices.into());
        Some(Value::Object(data))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn data_of_rows_has_the_notices() {
        let skill = json!({"skill": "guide"});
        let added = MessageNotices::add_to_data(Some(skill.clone()), vec!["Undid.".to_owned()]);
        assert_eq!(added, Some(json!({"skill": "guide", "notices": ["Undid."]})));
        assert_eq!(MessageNotices::from_data(added.as_ref()), ["Undid."]);
        assert_eq!(MessageNotices::add_to_data(None, vec!["x".to_owned()]), Some(json!({"notices": ["x"]})));
        assert_eq!(MessageNotices::add_to_data(Some(skill.clone()), Vec::new()), Some(skill.clone()));
        for other in [None, Some(skill), Some(json!({"notices": 1}))] {
            assert_eq!(MessageNotices::from_data(other.as_ref()), [""; 0]);
        }
    }
}
