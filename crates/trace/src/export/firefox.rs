//! A time line for the Firefox Profiler: each noted wait and hold is a marker of its thread, with its stack.

use std::collections::HashMap;
use std::io;
use std::time::{Duration, SystemTime};

use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, Frame as ProfileFrame, FrameFlags, FrameInfo, MarkerFieldFlags, MarkerFieldFormat,
    MarkerLocations, MarkerTiming, ProcessHandle, Profile, SamplingInterval, StaticSchemaMarker,
    StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp,
};

use crate::gather::{Gathered, Key, Span};
use crate::names::Names;
use crate::origin::Origin;
use crate::report::{use_name, Report};
use crate::threads::ThreadId;

/// A wait or a hold.
struct Interval {
    name: StringHandle,
    category: CategoryHandle,
    lock: StringHandle,
    used: StringHandle,
}

impl StaticSchemaMarker for Interval {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "Lock";
    const LOCATIONS: MarkerLocations =
        MarkerLocations::MARKER_CHART.union(MarkerLocations::MARKER_TABLE).union(MarkerLocations::TIMELINE_OVERVIEW);
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.lock}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name}: {marker.data.lock}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        StaticSchemaMarkerField {
            key: "lock",
            label: "Lock",
            format: MarkerFieldFormat::String,
            flags: MarkerFieldFlags::SEARCHABLE,
        },
        StaticSchemaMarkerField {
            key: "used",
            label: "Used as",
            format: MarkerFieldFormat::String,
            flags: MarkerFieldFlags::SEARCHABLE,
        },
    ];

    fn name(&self, _profile: &mut Profile) -> StringHandle {
        self.name
    }

    fn category(&self, _profile: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, field_index: u32) -> StringHandle {
        if field_index == 0 {
            self.lock
        } else {
            self.used
        }
    }

    fn number_field_value(&self, _field_index: u32) -> f64 {
        // There are no fields with numbers.
        0.0
    }
}

/// The time line as JSON.
pub fn profile(report: &Report, gathered: &Gathered) -> io::Result<Vec<u8>> {
    let names = Names::new(&gathered.processes.images);
    let first = gathered.counts.first.unwrap_or_default();
    let began =
        SystemTime::now().checked_sub(Duration::from_nanos(report.duration_ns)).unwrap_or(SystemTime::UNIX_EPOCH);
    let spacing = SamplingInterval::from_nanos(report.notes.spacing_ns.max(1));
    let title = format!("lockswap trace: {}", report.command.join(" "));
    let mut profile = Profile::new(&title, began.into(), spacing);
    // What stands in frames are names already.
    profile.set_symbolicated(true);
    let categories = [("Waiting", CategoryColor::Red), ("Holding", CategoryColor::Green)];
    let categories = categories.map(|(name, colour)| profile.add_category(name, colour));
    let kinds = ["wait", "hold"].map(|kind| profile.intern_string(kind));
    let mut threads = Threads { gathered, processes: HashMap::new(), threads: HashMap::new() };
    let mut objects: HashMap<Key, StringHandle> = HashMap::new();
    for span in &gathered.spans {
        let Span { key, is_wait, begin, length, stack, .. } = *span;
        let thread = threads.handle(&mut profile, span.thread);
        let lock = *objects.entry(key).or_insert_with(|| {
            let origin = gathered.objects.get(&key).map(|object| Origin::of(&key, object));
            let name = origin.map(|origin| origin.name(&gathered.stacks, &names).name);
            profile.intern_string(&name.unwrap_or_default())
        });
        let index = usize::from(!is_wait);
        let used = profile.intern_string(use_name(key.used));
        let marker = Interval { name: kinds[index], category: categories[index], lock, used };
        let time = |ns: u64| Timestamp::from_nanos_since_reference(ns.saturating_sub(first));
        let timing = MarkerTiming::Interval(time(begin), time(begin + length));
        let marker = profile.add_marker(thread, timing, marker);
        let frames = names.stack(gathered.stacks.frames(stack));
        let frames: Vec<FrameInfo> = frames
            .iter()
            .rev()
            .map(|frame| FrameInfo {
                frame: ProfileFrame::Label(profile.intern_string(&frame.words())),
                category_pair: categories[index].into(),
                flags: FrameFlags::empty(),
            })
            .collect();
        let stack = profile.intern_stack_frames(thread, frames.into_iter());
        profile.set_marker_stack(thread, marker, stack);
    }
    Ok(serde_json::to_vec(&profile)?)
}

/// The threads and processes in the profile.
struct Threads<'a> {
    gathered: &'a Gathered,
    processes: HashMap<u32, ProcessHandle>,
    threads: HashMap<ThreadId, ThreadHandle>,
}

impl Threads<'_> {
    fn handle(&mut self, profile: &mut Profile, number: ThreadId) -> ThreadHandle {
        let begin = Timestamp::from_nanos_since_reference(0);
        let thread = self.gathered.threads.get(number);
        let process = *self.processes.entry(thread.process).or_insert_with(|| {
            let name = format!("process {}", thread.process);
            profile.add_process(&name, thread.process, begin)
        });
        *self.threads.entry(number).or_insert_with(|| {
            let handle = profile.add_thread(process, thread.thread, begin, thread.thread == thread.process);
            profile.set_thread_name(handle, &thread.name);
            profile.set_thread_show_markers_in_timeline(handle, true);
            handle
        })
    }
}
