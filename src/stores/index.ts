// For stores of your own: the building blocks of the stores in this package.
export { journalSchema } from '../core/journal/index.ts';
export {
  type Check,
  checkArguments,
  type Flaw,
  type MethodArguments,
  type StoreArguments,
  stateStoreArguments,
} from './check-arguments.ts';
export { OpenAttempt } from './deltas.ts';
export { Broadcast } from './memory/memory-task.ts';
export {
  busy,
  checkAppend,
  childrenIn,
  ended,
  fenced,
  type JournalEnd,
  newerSchema,
  notFound,
  takesAtOnce,
} from './store-rules.ts';
export { dueTimeIn, selectTasks, statusTimeIn, summaryOfRecords, type TaskHead } from './task-summary.ts';
