import type { ToolListContext } from '../tools/interfaces.ts';
import type { ToolCall } from './messages.ts';

/** A call that may run if it is approved. */
export interface ApprovalRequest extends ToolListContext {
  /** `<iteration>:<index>`. */
  readonly callId: string;
  readonly call: ToolCall;
  /** Parsed and checked. */
  readonly arguments: unknown;
}

/** What becomes of a call: it runs, the model is told why it does not, or somebody is asked. */
export type ApprovalDecision =
  | { readonly decision: 'approve' }
  | { readonly decision: 'reject'; readonly reason?: string }
  | { readonly decision: 'ask'; readonly prompt?: string };

/** Optional hooks around the loop. An extension that is not there costs nothing. */
export interface Extension {
  /** Names the extension in errors. */
  readonly name: string;
  /**
   * Decides whether a call may run, on its checked arguments and before its intent; asked again where a turn is resumed before that.
   * `undefined` leaves it to the next extension, and at last to the tool's `needsApproval`. One that throws refuses the call.
   */
  readonly approveToolCall?: (
    request: ApprovalRequest,
  ) => ApprovalDecision | undefined | Promise<ApprovalDecision | undefined>;
}
