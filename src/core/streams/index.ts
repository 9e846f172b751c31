// Operators, subscribers and the cancellation tree that the other rooms use. Code outside of `core` imports from here only.
export { type AbortListener, AbortScope, onAbort, pause } from './abort-scope.ts';
export {
  DirectSubscriber,
  type FusibleOperator,
  fuse,
  Outlet,
  operate,
  outletOf,
  passOn,
  pipeInto,
  type Sink,
  Source,
  Stage,
  staged,
  switchOnce,
} from './operate.ts';
