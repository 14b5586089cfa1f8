//! Where objects have their names from.

use schemars::JsonSchema;
use serde::Serialize;

use crate::gather::Key;
use crate::names::{Frame, Names};
use crate::object::Object;
use crate::process::Place;
use crate::stacks::{StackId, Stacks};

/// What an object is named by; objects of the same origin have the same name.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Origin {
    /// It stands for those that are not told apart.
    Rest,
    /// The place of a static one.
    Static(Place),
    /// The call that initialised it, and the stack of that.
    Born(Place, StackId),
    /// The stack of the first that waited for it.
    Waited(StackId),
    /// The stack of the first that released it.
    Released(StackId),
}

/// The name of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ObjectName {
    /// The name.
    pub name: String,
    /// The file in which it lies, if it is static.
    pub module: Option<String>,
    /// What it is known by.
    pub identity: Identity,
}

/// What an object is known by, for those who want to find it again in another run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(tag = "by", rename_all = "snake_case")]
pub enum Identity {
    /// Nothing.
    #[default]
    Nothing,
    /// Its variable.
    Symbol,
    /// The call that initialised it.
    Initialised {
        /// The functions of that call, the innermost first.
        functions: Vec<Site>,
    },
    /// The first that was seen waiting for it, or releasing it.
    Seen {
        /// The functions of that, the innermost first.
        functions: Vec<Site>,
    },
}

/// A function of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Site {
    /// The function; where nobody knows it, the file and the place in it.
    pub function: String,
    /// The program or library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Whether somebody knows the function.
    pub is_named: bool,
}

/// Functions that an identity holds.
const MOST_SITES: usize = 4;

/// The functions of a stack that are there on their own, not as a part of their caller: the innermost first.
fn sites(names: &Names, places: &[Place]) -> Vec<Site> {
    let outer = places.iter().filter(|place| **place != Place::CUT).filter_map(|place| {
        let frames = names.frames(*place);
        let frame = frames.last().filter(|_| frames.iter().any(|frame| !names.is_pthread(place, frame)))?;
        let (function, module) = (frame.function.clone(), frame.module.clone());
        Some(Site { function, module, is_named: frame.build_id.is_none() })
    });
    outer.take(MOST_SITES).collect()
}

impl Origin {
    /// The origin of an object, as far as it is known by now.
    pub fn of(key: &Key, object: &Object) -> Self {
        match (object.place, object.birth) {
            _ if key.is_rest() => Self::Rest,
            (Some(place), _) if place.is_in_file() => Self::Static(place),
            (_, Some(birth)) => Self::Born(birth, object.birth_stack),
            _ if object.first_wait == StackId::NONE => Self::Released(object.first_release),
            _ => Self::Waited(object.first_wait),
        }
    }

    /// The name that it gives.
    pub fn name(self, stacks: &Stacks, names: &Names) -> ObjectName {
        let called = |name: String, identity: Identity| ObjectName { name, module: None, identity };
        let at = |frame: Option<Frame>, otherwise: &str| frame.map_or(otherwise.to_owned(), |frame| frame.words());
        match self {
            Self::Rest => called("all other objects".into(), Identity::Nothing),
            Self::Static(place) => ObjectName {
                name: names.variable(place).unwrap_or_else(|| format!("0x{:x}", place.address)),
                module: names.module(place),
                identity: Identity::Symbol,
            },
            Self::Born(place, stack) => {
                let birth = at(names.innermost(&[place]), "the C library");
                // Often a function that does nothing but initialise: what the object is for says who called it.
                let frames = names.stack(stacks.frames(stack));
                let caller = frames.get(1).filter(|frame| frame.function != Frame::CUT);
                let caller = caller.map(|caller| format!(", called by {}", caller.words())).unwrap_or_default();
                let callers = stacks.frames(stack).get(1).copied();
                let functions = sites(names, &[Some(place), callers].into_iter().flatten().collect::<Vec<_>>());
                called(format!("initialised in {birth}{caller}"), Identity::Initialised { functions })
            }
            Self::Waited(stack) | Self::Released(stack) => {
                let what = if matches!(self, Self::Waited(_)) { "waited for" } else { "released" };
                match names.innermost(stacks.frames(stack)) {
                    Some(first) => {
                        let functions = sites(names, stacks.frames(stack));
                        called(format!("first {what} in {}", first.words()), Identity::Seen { functions })
                    }
                    None => {
                        let why = "not named: nobody saw where it was initialised, or a thread that used it";
                        called(why.into(), Identity::Nothing)
                    }
                }
            }
        }
    }
}
