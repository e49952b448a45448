//! One filter of a list: what it asks of an item.

use serde_json::Value;

use steadfast_core::clock::Timestamp;
use steadfast_core::internal::vendor::date::{rfc2822, rfc3339};

use super::{Item, number};

#[derive(Debug)]
pub(super) struct Filter {
    /// The field, or several whose texts are taken together.
    pub(super) field: String,
    pub(super) wants: Wants,
}

#[derive(Debug)]
pub(super) enum Wants {
    Any(Vec<String>),
    NoneOf(Vec<String>),
    /// A number that is no less, or that is more.
    Min {
        bound: f64,
        is_open: bool,
    },
    Max {
        bound: f64,
        is_open: bool,
    },
    Since(Timestamp),
    Until(Timestamp),
    /// A text with this in it, in any case.
    Part(String),
}

/// The kind that a value has to be of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Whole,
    Decimal,
    /// `true` or `false`.
    Flag,
    /// `1` or `0`.
    Bit,
    Date,
    Text,
}

impl Filter {
    /// The filter of this parameter. `Err` is what its value has to be, and is not.
    pub(super) fn read(name: &str, value: &str, day: &DayOnly) -> Result<Filter, &'static str> {
        let (field, operator) = match name.split_once(':') {
            Some((field, operator)) => (field, operator),
            None => match (name.strip_prefix("min_"), name.strip_prefix("max_")) {
                (Some(field), _) => (field, "min"),
                (_, Some(field)) => (field, "max"),
                _ if name == "exclude_type" => ("type", "not_in"),
                _ => (name, ""),
            },
        };
        let kind = Kind::of(field);
        let one = || kind.read(value);
        let all = || value.split(',').map(|one| kind.read(one.trim())).collect::<Result<Vec<_>, _>>();
        let bound = || value.parse::<f64>().ok().filter(|_| one().is_ok()).ok_or_else(|| kind.name());
        let wants = match (operator, kind) {
            ("min", Kind::Date) => Wants::Since(date(value, day).ok_or("date")?),
            ("max", Kind::Date) => Wants::Until(date(value, day).ok_or("date")?),
            ("min" | "greater", _) => Wants::Min { bound: bound()?, is_open: operator == "greater" },
            ("max" | "less", _) => Wants::Max { bound: bound()?, is_open: operator == "less" },
            ("in", _) => Wants::Any(all()?),
            ("not_in", _) => Wants::NoneOf(all()?),
            ("like", _) => Wants::Part(value.to_lowercase()),
            _ => Wants::Any(vec![one()?]),
        };
        let field = match (name, field) {
            ("name:in", _) => "first_name last_name",
            (_, "total") => "total_inc_tax",
            (_, field) => field,
        };
        Ok(Filter { field: field.to_owned(), wants })
    }

    /// Whether what it looks at stands beside the item's text. A lookup that had to take a hundred thousand texts apart
    /// would be slow.
    pub(super) fn is_light(&self) -> bool {
        match self.wants {
            Wants::Min { .. } | Wants::Max { .. } => {
                matches!(self.field.as_str(), "id" | "total_inc_tax" | "price")
            }
            Wants::Since(_) | Wants::Until(_) => true,
            _ => false,
        }
    }

    /// Whether an item passes, by what stands beside its text.
    pub(super) fn passes_light(&self, item: &Item) -> bool {
        let number = match self.field.as_str() {
            "id" => item.id_number(),
            "price" => item.price,
            _ => item.total,
        };
        let at = if self.field == "date_modified" { item.modified } else { item.made };
        match self.wants {
            Wants::Since(day) => at >= day,
            Wants::Until(day) => at <= day,
            _ => self.is_within(number),
        }
    }

    /// Whether an item passes that is this.
    pub(super) fn passes(&self, item: &Value) -> bool {
        let several: Vec<&str> = self.field.split(' ').collect();
        let joined;
        let held = match several[..] {
            [field] => &item[field],
            _ => {
                let texts: Vec<&str> = several.iter().filter_map(|field| item[*field].as_str()).collect();
                joined = Value::from(texts.join(" "));
                &joined
            }
        };
        let is_one_of = |wanted: &[String]| wanted.iter().any(|one| self.is_equal(held, one));
        match &self.wants {
            Wants::Any(wanted) => is_one_of(wanted),
            Wants::NoneOf(wanted) => !is_one_of(wanted),
            Wants::Part(part) => held.as_str().is_some_and(|text| text.to_lowercase().contains(part)),
            _ => number(held).is_some_and(|held| self.is_within(held)),
        }
    }

    fn is_within(&self, number: f64) -> bool {
        match self.wants {
            Wants::Min { bound, is_open } => number > bound || !is_open && number >= bound,
            Wants::Max { bound, is_open } => number < bound || !is_open && number <= bound,
            _ => false,
        }
    }

    fn is_equal(&self, held: &Value, wanted: &str) -> bool {
        match Kind::of(&self.field) {
            #[allow(
                clippy::float_cmp,
                reason = "both were read from a decimal text, so that equal texts are equal"
            )]
            Kind::Decimal => number(held).is_some_and(|held| wanted.parse::<f64>() == Ok(held)),
            _ => super::equal(held, wanted),
        }
    }
}

/// Whether values of this field are equal as numbers, however they are written.
pub(super) fn is_decimal(field: &str) -> bool {
    Kind::of(field) == Kind::Decimal
}

impl Kind {
    fn of(field: &str) -> Kind {
        match field {
            "id" | "customer_id" | "customer_group_id" | "status_id" | "channel_id" | "brand_id"
            | "parent_id" | "inventory_level" | "total_sold" => Kind::Whole,
            "total" | "total_inc_tax" | "price" | "weight" => Kind::Decimal,
            "is_visible" | "is_active" | "is_flagged" => Kind::Flag,
            "is_featured" => Kind::Bit,
            "date_created" | "date_modified" => Kind::Date,
            _ => Kind::Text,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Kind::Whole => "integer",
            Kind::Decimal => "number",
            Kind::Flag => "boolean",
            Kind::Bit => "1 or 0",
            Kind::Date => "date",
            Kind::Text => "text",
        }
    }

    /// The value as an item may hold it.
    fn read(self, value: &str) -> Result<String, &'static str> {
        let read = match self {
            Kind::Whole => value.parse::<i64>().ok().map(|number| number.to_string()),
            Kind::Decimal => {
                value.parse::<f64>().ok().filter(|number| number.is_finite()).map(|_| value.to_owned())
            }
            Kind::Flag => matches!(value, "true" | "false").then(|| value.to_owned()),
            Kind::Bit => match value {
                "1" => Some("true".to_owned()),
                "0" => Some("false".to_owned()),
                _ => None,
            },
            Kind::Date => None,
            Kind::Text => Some(value.to_owned()),
        };
        read.ok_or_else(|| self.name())
    }
}

/// The meaning of a date without a time.
#[derive(Debug)]
pub(super) enum DayOnly {
    Begins,
    /// The day at the time of the request, as BigCommerce documents for products.
    AtThisTime(Timestamp),
}

/// RFC 2822 or ISO 8601. Without a zone it is in UTC.
fn date(text: &str, day: &DayOnly) -> Option<Timestamp> {
    if let Some(at) = rfc2822(text) {
        return Some(at);
    }
    match text.split_once('T') {
        Some((_, time)) if time.contains(['Z', 'z', '+', '-']) => rfc3339(text),
        Some(_) => rfc3339(&format!("{text}Z")),
        None => {
            let begin = rfc3339(&format!("{text}T00:00:00Z"))?;
            match day {
                DayOnly::Begins => Some(begin),
                DayOnly::AtThisTime(now) => {
                    Some(Timestamp::from_millis(begin.as_millis() + now.as_millis() % DAY_MS))
                }
            }
        }
    }
}

const DAY_MS: u64 = 86_400_000;
