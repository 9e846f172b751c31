// Calls the hooks of extensions and applies their answers. Other rooms import from here only.
export { type HookName, Hooks } from './hook-table.ts';
