import { getEventListeners } from 'node:events';
import { describe, expect, it } from '@jest/globals';
import { AbortScope } from 'millrace/internals';

/** A scope, a child and a grandchild. */
function tree() {
  const top = new AbortScope();
  const child = top.child();
  return { top, child, grandchild: child.child() };
}

describe('AbortScope', () => {
  it('aborts all below it with its reason, whether or not anybody listened or read a signal', () => {
    const { top, child, grandchild } = tree();
    const unread = top.child();
    const heard: string[] = [];
    const { signal } = grandchild;
    child.onAbort(() => heard.push('child'));
    grandchild.onAbort(() => heard.push('grandchild'));
    top.abort('enough');
    expect(heard.sort()).toEqual(['child', 'grandchild']);
    for (const scope of [top, child, grandchild, unread]) {
      expect([scope.aborted, scope.reason]).toEqual([true, 'enough']);
      expect([scope.signal.aborted, scope.signal.reason]).toEqual([true, 'enough']);
    }
    expect(grandchild.signal).toBe(signal);
  });

  it('calls its listeners before those of its signal, which is aborted also if one of them throws', () => {
    const scope = new AbortScope();
    const calls: string[] = [];
    scope.signal.addEventListener('abort', () => calls.push('signal'));
    scope.onAbort(() => calls.push('scope'));
    scope.onAbort(() => {
      throw new Error('broken');
    });
    expect(() => scope.abort('enough')).toThrow('broken');
    expect(calls).toEqual(['scope', 'signal']);
  });

  it('does not abort what is above or beside it', () => {
    const { top, child, grandchild } = tree();
    grandchild.abort('alone');
    expect([top.aborted, child.aborted]).toEqual([false, false]);
    top.abort('later');
    expect([child.reason, grandchild.reason]).toEqual(['later', 'alone']);
  });

  it('counts the first abort only, also where that was the parent’s', () => {
    const { top, child } = tree();
    const { signal } = child;
    top.abort('first');
    child.abort('second');
    expect([child.reason, signal.reason]).toEqual(['first', 'first']);
  });

  it('aborts the signal of a child that is released or aborted by a listener that comes before it', () => {
    for (const leave of [(scope: AbortScope) => scope.release(), (scope: AbortScope) => scope.abort('left')]) {
      const top = new AbortScope();
      const child = top.child();
      top.onAbort(() => leave(child));
      const { signal } = child;
      top.abort('enough');
      expect([signal.aborted, signal.reason]).toEqual([true, 'enough']);
    }
  });

  it('stays aborted when it is released after its parent was aborted, though nobody listened', () => {
    const { top, child } = tree();
    top.abort('enough');
    child.release();
    expect([child.aborted, child.reason]).toEqual([true, 'enough']);
  });

  it('lets go of its parent when released, and can be aborted by hand then', () => {
    const { top, child } = tree();
    const heard: string[] = [];
    child.onAbort(() => heard.push('child'));
    const { signal } = child;
    child.release();
    top.abort('enough');
    expect([child.aborted, signal.aborted, heard]).toEqual([false, false, []]);
    child.abort('by hand');
    expect([signal.reason, heard]).toEqual(['by hand', ['child']]);
  });

  it('calls no listener that was taken back, and none of a scope that is aborted already', () => {
    const scope = new AbortScope();
    const heard: string[] = [];
    scope.onAbort(() => heard.push('kept'));
    const stop = scope.onAbort(() => heard.push('taken back'));
    stop();
    stop();
    scope.abort('enough');
    scope.onAbort(() => heard.push('late'));
    expect(heard).toEqual(['kept']);
  });

  it('follows a signal until it is released, and one that is aborted at once', () => {
    const controller = new AbortController();
    const [followed, released, late] = [new AbortScope(), new AbortScope(), new AbortScope()];
    followed.follow(controller.signal);
    released.follow(controller.signal);
    released.release();
    controller.abort('outside');
    late.follow(controller.signal);
    expect([followed.reason, released.aborted, late.reason]).toEqual(['outside', false, 'outside']);
  });

  it('R-24 gives a signal one listener, however many scopes follow it, and none once they are released', () => {
    const shared = new AbortController();
    const scopes = Array.from({ length: 1_000 }, () => new AbortScope());
    for (const scope of scopes) scope.follow(shared.signal);
    expect(getEventListeners(shared.signal, 'abort')).toHaveLength(1);
    for (const scope of scopes.slice(1)) scope.release();
    expect(getEventListeners(shared.signal, 'abort')).toHaveLength(1);
    scopes[0]?.release();
    expect(getEventListeners(shared.signal, 'abort')).toHaveLength(0);
    scopes[1]?.follow(shared.signal);
    shared.abort('enough');
    expect(scopes.slice(0, 3).map(({ aborted }) => aborted)).toEqual([false, true, false]);
  });
});
