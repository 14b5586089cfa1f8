//! Charts and heat maps: for the terminal, as SVG and as PNG.
