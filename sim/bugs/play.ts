/** The world that the bugs are hunted in. */
export { playSeed } from "../play-seed.ts";
