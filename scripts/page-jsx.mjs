// What the JSX of pages becomes calls of.
export { Fragment, h } from 'preact';
