import type { TaskStateStore } from 'millrace';

/** A store with some of its methods replaced. */
export function withMethods(store: TaskStateStore, methods: Partial<TaskStateStore>): TaskStateStore {
  return {
    ...(store.messages && { messages: store.messages }),
    refersTo: (messages) => store.refersTo?.(messages) === true,
    create: (...args) => store.create(...args),
    acquire: (...args) => store.acquire(...args),
    append: (...args) => store.append(...args),
    renew: (...args) => store.renew(...args),
    release: (...args) => store.release(...args),
    breakLease: (...args) => store.breakLease(...args),
    read: (...args) => store.read(...args),
    post: (...args) => store.post(...args),
    load: (...args) => store.load(...args),
    describe: (...args) => store.describe(...args),
    list: (...args) => store.list(...args),
    delete: (...args) => store.delete(...args),
    check: () => store.check(),
    commands: (...args) => store.commands(...args),
    follow: (...args) => store.follow(...args),
    publish: (...args) => store.publish(...args),
    ...methods,
  };
}
