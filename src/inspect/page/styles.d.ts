/** What the bundle of a page takes up. */
declare module '*.css';
