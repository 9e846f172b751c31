/** Every member may be left out, or be `undefined`. */
export type Optional<T> = { readonly [Name in keyof T]?: T[Name] | undefined };

/** Every member is there, and none is `undefined`: options with their defaults. `Required` leaves an explicit `undefined` in. */
export type Defined<T> = { readonly [Name in keyof T]-?: Exclude<T[Name], undefined> };
