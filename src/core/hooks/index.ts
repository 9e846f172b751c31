// How extensions are asked, and what follows from their answers. Other rooms import from here only.
export { type HookName, Hooks } from './hook-table.ts';
