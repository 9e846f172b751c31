// Operators, subscribers, the cancellation tree and waits that the other rooms use. Code outside of `core` imports from here only.
export { type AbortListener, AbortScope, onAbort } from './abort-scope.ts';
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
export { after, Backoff, pause, settled, Timer, unlessAborted, within } from './wait.ts';
