// How extensions are asked, and what follows from their answers. Other rooms import from here only.
export type { HookName } from './hook-table.ts';
export { Hooks } from './hooks.ts';
