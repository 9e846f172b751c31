import type { SegmentContext } from '../hooks/hook-context.ts';
import { Hooks } from '../hooks/hook-table.ts';
import { type ModelCallDeps, OpenModelCall } from '../model-call/open-model-call.ts';
import type { TurnNode } from '../ownership/child-turns.ts';
import type { Inbox } from '../ownership/inbox.ts';
import { UnstartedCalls } from '../tool-call/tool-results.ts';

/** The run of a turn in one process, from its start or resume on. Each room declares what it uses of it. */
export class Run implements ModelCallDeps {
  declare segment: SegmentContext;
  declare readonly node: TurnNode;
  declare readonly inbox: Inbox;
  declare readonly hooks: Hooks;
  declare readonly unstartedCalls: UnstartedCalls;
  declare readonly openModelCall: OpenModelCall;

  constructor(segment: SegmentContext, node: TurnNode, inbox: Inbox) {
    this.segment = segment;
    this.node = node;
    this.inbox = inbox;
    this.hooks = new Hooks(segment.config.hooks);
    this.unstartedCalls = new UnstartedCalls();
    this.openModelCall = new OpenModelCall();
  }
}
