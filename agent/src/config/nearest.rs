// SPDX-License-Identifier: MIT OR Apache-2.0
//! Suggests a known name for an unknown one.

/// A hint with the name that is most similar to a wrong one. `None`: no name is similar.
pub fn suggest(wrong: &str, names: &[&str]) -> Option<String> {
    // A key in the wrong table is as likely as a typing error.
    let last = |name: &str| name.rsplit('.').next().unwrap_or_default().to_owned();
    let likeness = |name: &str| {
        let whole = strsim::normalized_damerau_levenshtein(name, wrong);
        whole.max(strsim::normalized_damerau_levenshtein(&last(name), &last(wrong)))
    };
    let nearest = names.iter().max_by(|a, b| likeness(a).total_cmp(&likeness(b)))?;
    (likeness(nearest) > 0.5).then(|| format!("did you mean `{nearest}`?"))
}
