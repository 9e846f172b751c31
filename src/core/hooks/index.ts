// How extensions are asked, and what follows from their answers. Other rooms import from here only.
export { Hooks } from './hooks.ts';
