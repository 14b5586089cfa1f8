macro_rules! for_each_example {
    ($callback:ident) => {
        $callback! {
            mutex {
                "spin-park" => $crate::lock::SpinPark,
                "shfl-big-first" => $crate::policy::ShflBigFirst,
            }
            rwlock {}
            spin {}
        }
    };
}
