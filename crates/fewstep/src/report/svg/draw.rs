//! The few SVG elements both charts are made of.
//!
//! Everything is a presentation attribute: a style sheet inside an SVG would leak into the
//! HTML page that embeds it.

use super::super::escape;

/// A generous width of one character at the font size of the charts.
pub const CHARACTER: f64 = 6.9;

/// A straight line.
pub fn rule((x1, y1): (f64, f64), (x2, y2): (f64, f64), colour: &str) -> String {
    format!(r#"<line x1="{x1:.1}" y1="{y1:.1}" x2="{x2:.1}" y2="{y2:.1}" stroke="{colour}"/>"#)
}

/// `body` at the baseline point `(x, y)`, escaped.
pub fn text(x: f64, y: f64, attributes: &str, body: &str) -> String {
    format!(
        r#"<text x="{x:.1}" y="{y:.1}" {attributes}>{}</text>"#,
        escape(body)
    )
}

/// A standalone picture on white, with `title` in its upper left corner.
pub fn document(width: f64, height: f64, title: &str, body: &str) -> String {
    let title = escape(title);
    format!(
        r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0} {height:.0}" width="{width:.0}" height="{height:.0}" role="img" aria-label="{title}" font-family="sans-serif" font-size="12" fill="#222222">
<rect width="{width:.0}" height="{height:.0}" fill="#ffffff"/>
<text x="20" y="32" font-size="16" font-weight="bold">{title}</text>
{body}
</svg>
"##
    )
}

/// A filled box with its upper left corner at `(x, y)`.
pub fn rectangle(x: f64, y: f64, width: f64, height: f64, colour: &str) -> String {
    format!(
        r#"<rect x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}" fill="{colour}"/>"#
    )
}

#[cfg(test)]
mod tests {
    use super::super::super::tests::assert_balanced;
    use super::*;

    #[test]
    fn a_document_stands_alone_and_escapes_its_title() {
        let svg = document(300.4, 200.0, "a < b", &text(1.0, 2.0, "", "c & d"));
        assert_balanced(&svg);
        assert!(svg.starts_with(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 200" width="300""#
        ));
        assert!(svg.contains(r##"<rect width="300" height="200" fill="#ffffff"/>"##));
        assert!(svg.contains(">a &lt; b</text>"));
        assert!(svg.contains(r#"<text x="1.0" y="2.0" >c &amp; d</text>"#));
    }

    #[test]
    fn shapes_round_to_a_tenth_of_a_pixel() {
        assert_eq!(
            rule((0.04, 1.0), (2.26, 3.0), "red"),
            r#"<line x1="0.0" y1="1.0" x2="2.3" y2="3.0" stroke="red"/>"#
        );
        assert_eq!(
            rectangle(1.0, 2.0, 3.0, 4.0, "red"),
            r#"<rect x="1.0" y="2.0" width="3.0" height="4.0" fill="red"/>"#
        );
    }
}
