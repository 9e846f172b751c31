// Leases, journal appends, take-over and child turns. Other rooms import from here only.
export {
  childResult,
  hookParentOf,
  type ParentTurn,
  parentTurnOf,
  TurnLost,
  TurnNode,
  withParent,
} from './child-turns.ts';
export { releaseUnused } from './lease.ts';
