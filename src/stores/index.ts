// For stores of your own: what the stores of this package are made of.
export { journalSchema } from '../core/journal/index.ts';

export { checkAppend, type JournalEnd } from './check-append.ts';
export { checkArguments, type StoreArguments, stateStoreArguments } from './check-arguments.ts';
export { childrenIn, takesAtOnce } from './child-turns.ts';
export { statusTimeIn } from './context-group.ts';
export { Broadcast } from './memory/broadcast.ts';
export { OpenAttempt } from './memory/open-attempt.ts';
export { selectTasks } from './select-tasks.ts';
export { busy, ended, fenced, newerSchema, notFound } from './store-errors.ts';
export { summaryOfRecords } from './task-summary.ts';
