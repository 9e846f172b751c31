// Who may write to a journal: leases, appends, take-over, child turns. Other rooms import from here only.
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
