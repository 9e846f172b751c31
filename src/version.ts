/** Of this package, as in package.json; `npm run release` sets both. The scope of spans and metrics names it. */
export const packageVersion = '0.1.0';
