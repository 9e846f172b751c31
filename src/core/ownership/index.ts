// Leases, journal appends, take-over and child turns. Exports for code outside of core, and some of the rooms inside.
export { isLeft, ParentTurn, TurnLost, TurnNode } from './child-turns.ts';
export { Inbox, incomingMessage } from './inbox.ts';
export { releaseUnused } from './lease.ts';
