/** The bundle of a page: scripts/page-plugin.mjs makes it of the file before the `?`. */
declare module '*?page' {
  export const script: string;
  export const style: string;
  /** Changes with the script and the style. */
  export const version: string;
}
