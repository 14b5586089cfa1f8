//! What places in files are called in the source.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

use blazesym::symbolize::source::{Elf, Source};
use blazesym::symbolize::{CodeInfo, Input, Symbolizer};
use schemars::JsonSchema;
use serde::Serialize;

use crate::demangle::demangled;
use crate::image::{DataSymbol, Image};
use crate::process::{Images, Place};

/// A frame of a stack: a function, with where in it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Frame {
    /// The function; where nobody knows it, the file and the place in it: `server+0x1234`.
    pub function: String,
    /// The source file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The line in it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// The program or library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Its build id, where the function is not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub build_id: Option<String>,
}

impl Frame {
    /// What stands for the rest of a stack that was not copied or could not be unwound.
    pub const CUT: &str = "[cut off]";

    /// `slow_section (server.c:12)`, `server+0x1234 (build id 1a2b)`
    pub fn words(&self) -> String {
        let file = self.file.as_ref().map(|file| file.rsplit('/').next().unwrap_or_default());
        match (file, self.line, &self.build_id) {
            (Some(file), Some(line), _) => format!("{} ({file}:{line})", self.function),
            (Some(file), None, _) => format!("{} ({file})", self.function),
            (None, _, Some(id)) => format!("{} (build id {})", self.function, id.get(..12).unwrap_or(id)),
            (None, _, None) => self.function.clone(),
        }
    }

    fn unnamed(text: impl Into<String>) -> Self {
        Self { function: text.into(), ..Self::default() }
    }
}

/// Looks names up, each once.
pub struct Names {
    images: Images,
    symbolizer: Symbolizer,
    frames: RefCell<HashMap<Place, Arc<[Frame]>>>,
    data: RefCell<HashMap<u32, Arc<[DataSymbol]>>>,
}

impl Names {
    /// Names in these files.
    pub fn new(images: &Images) -> Self {
        let symbolizer = Symbolizer::builder().enable_code_info(true).enable_inlined_fns(true).enable_demangling(false);
        let (images, symbolizer) = (images.clone(), symbolizer.build());
        Self { images, symbolizer, frames: RefCell::default(), data: RefCell::default() }
    }

    /// Names in these files from now on: those of before, and what came after them.
    pub fn know(&mut self, images: Images) {
        self.images = images;
    }

    /// The name of a file without its folder.
    pub fn module(&self, place: Place) -> Option<String> {
        self.images.get(place.image).map(Image::name)
    }

    /// The functions at a place in the code, the innermost first: several where some were inlined.
    pub fn frames(&self, place: Place) -> Arc<[Frame]> {
        let known = self.frames.borrow().get(&place).cloned();
        known.unwrap_or_else(|| {
            let found: Arc<[Frame]> = self.look_up(place).into();
            self.frames.borrow_mut().insert(place, Arc::clone(&found));
            found
        })
    }

    fn look_up(&self, place: Place) -> Vec<Frame> {
        if place == Place::CUT {
            return vec![Frame::unnamed(Frame::CUT)];
        }
        let Some(image) = self.images.get(place.image) else {
            return vec![Frame::unnamed(format!("0x{:x}", place.address))];
        };
        let module = Some(image.name());
        let source = image.file().map(|path| Source::from(Elf::new(path)));
        let found = source.and_then(|source| {
            let found = self.symbolizer.symbolize_single(&source, Input::VirtOffset(place.address)).ok()?;
            let symbol = found.into_sym()?;
            let outer = frame(&symbol.name, symbol.code_info.as_deref(), &module);
            let inlined = symbol.inlined.iter().map(|inner| frame(&inner.name, inner.code_info.as_ref(), &module));
            // blazesym has the outermost first.
            let mut frames: Vec<Frame> = std::iter::once(outer).chain(inlined).collect();
            frames.reverse();
            Some(frames)
        });
        found.unwrap_or_else(|| {
            let function = format!("{}+0x{:x}", image.name(), place.address);
            vec![Frame { function, module, build_id: image.build_id.clone(), ..Frame::default() }]
        })
    }

    /// The functions of a stack, the innermost first, without the pthread functions that it ended in.
    pub fn stack(&self, places: &[Place]) -> Vec<Frame> {
        let frames = places.iter().flat_map(|place| {
            let of_place: Vec<(&Place, Frame)> = self.frames(*place).iter().map(|f| (place, f.clone())).collect();
            of_place
        });
        frames.skip_while(|(place, frame)| self.is_pthread(place, frame)).map(|(_, frame)| frame).collect()
    }

    /// The first of these functions.
    pub fn innermost(&self, places: &[Place]) -> Option<Frame> {
        places.iter().find_map(|place| {
            let frames = self.frames(*place);
            frames.iter().find(|frame| !self.is_pthread(place, frame)).cloned()
        })
    }

    /// Whether it is one of the pthread functions, or a part of one.
    pub fn is_pthread(&self, place: &Place, frame: &Frame) -> bool {
        let in_libc = self.images.get(place.image).is_some_and(Image::is_libc);
        let name = frame.function.trim_start_matches('_');
        let begins = ["pthread_", "lll_", "futex", "mtx_", "cnd_", "GI___"];
        in_libc && begins.iter().any(|begin| name.starts_with(begin))
    }

    /// The variable at a place, as `name` or `name+0x40`, or `file+0x1234` where nobody knows it; `None` if it lies
    /// in no file.
    pub fn variable(&self, place: Place) -> Option<String> {
        let image = self.images.get(place.image)?;
        let symbols =
            Arc::clone(self.data.borrow_mut().entry(place.image).or_insert_with(|| image.data_symbols().into()));
        let behind = symbols.partition_point(|symbol| symbol.address <= place.address);
        let symbol = behind.checked_sub(1).and_then(|index| symbols.get(index));
        let within = symbol.filter(|symbol| place.address - symbol.address < symbol.size.max(1));
        Some(match within {
            Some(symbol) if symbol.address == place.address => symbol.name.clone(),
            Some(symbol) => format!("{}+0x{:x}", symbol.name, place.address - symbol.address),
            None => format!("{}+0x{:x}", image.name(), place.address),
        })
    }
}

fn frame(name: &str, code: Option<&CodeInfo<'_>>, module: &Option<String>) -> Frame {
    Frame {
        function: demangled(name),
        file: code.map(|code| code.to_path().to_string_lossy().into_owned()),
        line: code.and_then(|code| code.line),
        module: module.clone(),
        build_id: None,
    }
}
