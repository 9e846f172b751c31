// Leases, journal appends, take-over and child turns. Exports for code outside of core, and some of the rooms inside.
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
