//! The catalogue of the locks: what the registry and the results of the checks say of each.
//!
//! - [`Row`] is all that is known of a lock as data, for JSON and CSV; [`COLUMNS`] are the columns of a table for
//!   people;
//! - [`Facts`] is the same in words, and [`pages`] makes `docs/locks` of it, a page per lock;
//! - [`about`] is what the source of a lock says at its top: its picture, its properties, its deviations;
//! - [`AllChecks`] is `docs/checked.json`, the results of `lockswap-check`.

#![forbid(unsafe_code)]

pub mod about;
mod checked;
mod columns;
mod order;
pub mod pages;
mod row;

pub use checked::{not_checked, AllChecks, Check, Engine, Explored, Loomed, Summary, Unreadable};
pub use columns::{heading, markdown, Column, COLUMNS};
pub use order::{by_family, families, option, ROLES};
pub use pages::Facts;
pub use row::{to_csv, Row};
