// Calls the hooks of extensions and applies their answers. Exports for code outside of core, and some of the rooms inside.
export { type HookName, hookLists, hookNames } from './hook-table.ts';
