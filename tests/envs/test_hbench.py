"""HumanoidBench step for step: recorded trajectories of the original, the reward formulas written down again
with dm_control's own tolerance, and hand-placed states for every rare branch."""

from __future__ import annotations

import functools
import json
import math

import mujoco
import numpy as np
import pytest
from dm_control.utils.rewards import tolerance

from simbav2.envs.humanoid_bench import HumanoidBench
from simbav2.envs.humanoid_bench.assets import VARIABLE
from simbav2.envs.humanoid_bench.tasks import TASKS
from simbav2.errors import InputError

pytestmark = pytest.mark.usefixtures("humanoid_bench")


@functools.cache
def load(name: str) -> HumanoidBench:
    return HumanoidBench(name)


def start(name: str, seed: int = 0) -> HumanoidBench:
    """An environment shared by the tests (loading one takes a while), at the start of an episode."""
    env = load(name)
    env.reset(seed=seed)
    return env


def actions(count: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).uniform(-1, 1, (count, 19)).astype(np.float32)


MIDDLE = np.zeros(19, np.float32)


# Agreement with the original


@pytest.mark.parametrize("name", ["h1-walk", "h1-reach", "h1-sit-hard"])
def test_recorded_trajectories_of_the_original_are_matched(golden, name):
    record = np.load(golden / f"{name.removeprefix('h1-').replace('-', '_')}_seed0.npz")
    meta = json.loads(str(record["meta"]))
    env = load(name)
    observation, info = env.reset(seed=meta["seed"])
    assert (observation.dtype, info) == (np.float64, {})
    np.testing.assert_allclose(observation, record["reset_obs"], rtol=0, atol=1e-12)
    for step, action in enumerate(record["actions"]):
        observation, reward, terminated, truncated, info = env.step(action)
        np.testing.assert_allclose(observation, record["obs"][step], rtol=0, atol=1e-9)
        assert reward == pytest.approx(record["reward"][step], rel=0, abs=1e-9)
        assert (terminated, truncated) == (record["terminated"][step], record["truncated"][step])
        assert list(info) == meta["info_keys"]
        for key, value in info.items():
            assert value == pytest.approx(record[f"info_{key}"][step], rel=0, abs=1e-9), key


class Sheet:
    """The reward formulas again, by named access and dm_control's tolerance: slow, plain, independent."""

    def __init__(self, env: HumanoidBench) -> None:
        self.model, self.data, self.name = env.model, env.data, env.name
        self.stage, self.heading = 0, (1, 0)

    def read(self) -> None:
        data = self.data
        self.pelvis = data.qpos[:3]
        self.head, self.imu = data.site("head").xpos[2], data.site("imu").xpos
        self.feet = [data.site(f"{side}_foot").xpos[2] for side in ("left", "right")]
        self.up = data.body("torso_link").xmat[8]
        self.velocity = data.sensor("pelvis_subtreelinvel").data[:2]
        self.pairs = [
            {self.model.geom(i).name or i for i in data.contact[n].geom.tolist()} for n in range(data.ncon)
        ]
        forces = tolerance(data.actuator_force, margin=10, value_at_margin=0, sigmoid="quadratic")
        self.control = (4 + forces.mean()) / 5
        self.still = tolerance(self.velocity, margin=2).mean()

    def upright(self, bound: float, margin: float = 1.9) -> float:
        return tolerance(self.up, (bound, math.inf), margin, "linear", 0)

    def standing(self, height: float = 1.65) -> float:
        return tolerance(self.head, (height, math.inf), 1.65 / 4)

    def move(self, speed: float) -> float:
        return (5 * tolerance(self.velocity[0], (speed, math.inf), speed, "linear", 0) + 1) / 6

    def touched(self, part: str) -> bool:
        return any(part in str(name) for pair in self.pairs for name in pair)

    def reward(self) -> float:
        self.read()
        return getattr(self, self.name.removeprefix("h1-").replace("-", "_"))()

    def walk(self, speed=1.0, bound=0.9):
        return self.control * (self.standing() * self.upright(bound)) * self.move(speed)

    def run(self):
        return self.walk(5.0)

    def hurdle(self):
        return self.walk(5.0, 0.8) * (0.1 if self.touched("barrier_collision") else 1)

    def stand(self, height=1.65):
        return self.control * (self.standing(height) * self.upright(0.9)) * self.still

    def balance_simple(self):
        return self.stand(1.65 + 0.37)

    balance_hard = balance_simple

    def stair(self):
        left, right = (tolerance(self.head - foot, (1.2, math.inf), 0.45) for foot in self.feet)
        return left * right * self.upright(0.5) * self.control * self.move(1.0)

    slide = stair

    def pole(self):
        stand = self.standing() * self.upright(0.9)
        return (0.5 * (self.control * stand) + 0.5 * self.move(0.5)) * (0.1 if self.touched("pole_r") else 1)

    def crawl(self):
        band = (0.8 - 0.2, 0.8 + 0.2)
        pose = np.linalg.norm(self.data.body("pelvis").xquat - np.array([0.75, 0, 0.65, 0]))
        height = min(tolerance(self.imu[2], band, 1), tolerance(self.head, band, 1))
        total = 0.1 * self.control + 0.25 * height + 0.4 * self.move(1.0) + 0.25 * tolerance(pose, margin=1)
        return total * tolerance(self.imu[1], (-1, 1), 0)

    def sit_simple(self):
        x, y, z = self.pelvis
        chair = self.data.body("chair").xpos
        on_chair = tolerance(x - chair[0], (-0.19, 0.19), 0.2) * tolerance(y - chair[1], margin=0.1)
        sitting = 0.5 * tolerance(z, (0.68, 0.72), 0.2) + 0.5 * on_chair
        posture = tolerance(self.head - self.imu[2], (0.35, 0.45), 0.3)
        return self.control * (sitting * self.upright(0.95, 0.9) * posture) * self.still

    sit_hard = sit_simple

    def maze(self):
        checkpoints, bonus = np.array([(0, 0), (3, 0), (3, 6), (6, 6), (6, 6)]), 0
        distance = np.linalg.norm(self.data.body("pelvis").xpos[:2] - checkpoints[self.stage])
        if distance < 0.4 and self.stage < 4:
            self.heading = [(1, 0), (0, 1), (1, 0), (0, 1)][self.stage]
            self.stage += 1
            bonus = 100 * self.stage
        off = self.velocity - 2 * np.array(self.heading)
        on_course = 1 if self.stage == 4 else np.prod(tolerance(off, (0, 0), 1, "linear", 0))
        near = tolerance(np.linalg.norm(checkpoints[self.stage] - self.imu[:2]), margin=1)
        stand = self.standing() * self.upright(0.9)
        total = 0.2 * (stand * self.control) + 0.4 * ((5 * on_course + 1) / 6) + 0.4 * near
        return total * (0.1 if self.touched("block_collision") else 1) + bonus


@pytest.mark.parametrize("name", [name for name in TASKS if name != "h1-reach"])
def test_rewards_follow_the_sheet_to_the_last_bit(name):
    random = np.random.default_rng(7)
    for seed in range(4):
        env = start(name, seed)
        sheet = Sheet(env)
        # Thrown somewhere at some speed, so that posture, contacts and velocities vary.
        env.data.qpos[:3] += random.uniform((-0.5, -1.3, 0.0), (3.0, 1.3, 0.4))
        env.data.qpos[3:7] += random.normal(0, 0.4, 4)
        env.data.qvel[:3] = random.normal(0, 2.0, 3)
        for action in actions(15, seed):
            _, reward, *_ = env.step(action)
            assert reward == sheet.reward()


# Endings


@pytest.mark.parametrize("name", TASKS)
def test_episodes_end_below_the_tasks_own_pelvis_height(name):
    heights = {"h1-pole": 0.5, "h1-sit": 0.5, "h1-balance": 0.8}
    never = {"h1-reach", "h1-crawl", "h1-stair", "h1-slide"}
    env = start(name)
    height = heights.get(name.removesuffix("-simple").removesuffix("-hard"), 0.2)
    env.data.qpos[2] = height
    assert not env.task.ended()
    env.data.qpos[2] = np.nextafter(height, 0)
    assert env.task.ended() == (name not in never)


@pytest.mark.parametrize("name", ["h1-stair", "h1-slide", "h1-walk", "h1-crawl", "h1-reach"])
def test_toppling_ends_only_stair_and_slide(name):
    env = start(name)
    env.data.qpos[2:7] = 3.0, math.sqrt(0.5), 0, math.sqrt(0.5), 0  # level in the air, face down
    _, _, terminated, _, _ = env.step(MIDDLE)
    assert env.task.robot.uprightness < 0.1
    assert terminated == (name in ("h1-stair", "h1-slide"))


# Controls and instants


def test_float32_actions_are_scaled_in_float32_and_wide_ones_in_float64():
    env = start("h1-walk")
    low, high = env.model.actuator_ctrlrange.T.astype(np.float32)
    action = actions(1)[0]
    env.step(action)
    np.testing.assert_array_equal(env.data.ctrl, ((action + 1) / 2) * (high - low) + low)
    wide = action.astype(np.float64)
    env.step(wide)
    np.testing.assert_array_equal(env.data.ctrl, ((wide + 1) / 2) * (high - low) + low)
    assert not np.array_equal(env.data.ctrl, ((action + 1) / 2) * (high - low) + low)


def test_actions_out_of_range_saturate():
    full, double, tenfold = (start("h1-walk").step(np.full(19, size, np.float32))[0] for size in (1, 2, 10))
    np.testing.assert_array_equal(double, tenfold)
    np.testing.assert_allclose(full, double, rtol=0, atol=1e-5)  # float32 does not hit the range exactly


def test_derived_quantities_are_those_before_the_last_physics_step():
    env = start("h1-walk")
    twin = mujoco.MjData(env.model)
    mujoco.mj_copyData(twin, env.model, env.data)
    env.step(MIDDLE)
    twin.ctrl[:] = env.data.ctrl
    mujoco.mj_step(env.model, twin, nstep=9)
    mujoco.mj_forward(env.model, twin)
    assert env.task.robot.head_height == twin.site("head").xpos[2]
    mujoco.mj_step(env.model, twin)
    np.testing.assert_array_equal(env.data.qpos, twin.qpos)


# Resets and seeds


def test_the_goal_and_the_place_before_the_chair_come_from_the_seed_alone():
    before = np.random.get_state()[1].copy()  # noqa: NPY002 (it is this generator that must stay untouched)
    goals = [start("h1-reach", seed).reset(seed=seed)[0][-3:] for seed in (0, 0, 1)]
    places = [start("h1-sit-hard", seed).reset(seed=seed)[0][[0, 1, 3, 6]] for seed in (0, 0, 1)]
    for same, again, other in (goals, places):
        np.testing.assert_array_equal(same, again)
        assert np.all(same != other)
    np.testing.assert_array_equal(np.random.get_state()[1], before)  # noqa: NPY002
    np.testing.assert_array_equal(goals[0], np.random.RandomState(0).uniform((-2, -2, 0.2), (2, 2, 2)))
    np.testing.assert_array_equal(load("h1-reach").reset(seed=2**40)[0][-3:], goals[0])  # 32 bits of it are used


@pytest.mark.parametrize("name", TASKS)
def test_start_poses_are_the_keyframe_with_raw_noise(name):
    env = start(name)
    noise = env.data.qpos - env.model.key_qpos[0]
    if name == "h1-sit-hard":
        x, y, half_turn = env.data.qpos[0], env.data.qpos[1], math.atan2(env.data.qpos[6], env.data.qpos[3])
        assert 0.2 <= x <= 0.4
        assert -0.15 <= y <= 0.15
        assert -0.9 <= half_turn <= 0.9
        assert np.linalg.norm(env.data.qpos[3:7]) == pytest.approx(1, abs=1e-15)
        noise[[0, 1, 3, 4, 5, 6]] = 0.005
    else:
        assert np.linalg.norm(env.data.qpos[3:7]) != pytest.approx(1, abs=1e-6)
    assert np.all(np.abs(noise) <= 0.01)
    assert np.all(noise != 0)
    assert not env.data.qvel.any()


# Hand-placed states


def contact_names(env: HumanoidBench) -> list[set[str]]:
    return [{env.model.geom(i).name for i in pair} for pair in env.task.robot.contact_pairs().tolist()]


@pytest.mark.parametrize(
    ("name", "place", "touched", "told"),
    [
        ("h1-maze", (0, -0.6), "block_collision", {"wall_collision_discount": 0.1, "stage_convert_reward": 0}),
        ("h1-pole", (0.95, 0.75), "pole_r1_c2", {"collision_discount": 0.1}),
        ("h1-pole", (-0.2, -2.9), "left_barrier", {"collision_discount": 1}),
        ("h1-hurdle", (0, -4.45), "left_barrier_collision", {"wall_collision_discount": 0.1}),
        ("h1-hurdle", (0, 4.45), "right_barrier_collision", {"wall_collision_discount": 0.1}),
        ("h1-hurdle", (-0.475, 0), "behind_barrier_collision", {"wall_collision_discount": 0.1}),
        ("h1-hurdle", "before the first hurdle", "geom 1 ", {"wall_collision_discount": 1}),
        # Before the tunnel's mouth, so that no wall is in the way; outside it nothing is paid.
        *(("h1-crawl", (0, y), None, {"in_tunnel": inside}) for y, inside in ((0.9, 1), (1.1, 0), (-1.1, 0))),
    ],
)
def test_what_a_place_or_a_contact_costs(name, place, touched, told):
    env = start(name)
    sheet = Sheet(env)
    if isinstance(place, str):  # the ten hurdles follow the floor, geom 0
        place = env.data.geom_xpos[1, :2] - (0.12, 0)
    env.data.qpos[:2] = place
    _, reward, terminated, _, info = env.step(MIDDLE)
    assert (reward, terminated) == (sheet.reward(), False)
    assert {key: info[key] for key in told} == told
    geoms = env.task.robot.contact_pairs().ravel()
    bodies = env.model.geom_bodyid
    names = [f"{env.model.geom(i).name or f'geom {i}'} {env.model.body(bodies[i]).name}" for i in geoms]
    assert touched is None or any(touched in each for each in names), names


def test_the_maze_pays_each_checkpoint_once_and_wants_two_metres_a_second_towards_the_next():
    env = start("h1-maze")
    sheet = Sheet(env)
    stages, bonuses = [], []
    east, north = (2, 0), (0, 2)
    route = [(0, 0, east), (3, 0, north), (0, 0, north), (6, 6, north), (3, 6, east), (6, 6, east), (6, 6, east)]
    for x, y, velocity in route:
        env.data.qpos[:7] = x, y, 3.0, 1, 0, 0, 0  # above the walls
        env.data.qvel[:] = 0
        env.data.qvel[:2] = velocity
        _, reward, terminated, _, info = env.step(MIDDLE)
        assert (reward, terminated) == (sheet.reward(), False)
        assert info["move"] == pytest.approx(1, abs=0.01)
        stages.append(info["success_subtasks"])
        bonuses.append(info["stage_convert_reward"])
    assert stages == [1, 2, 2, 2, 3, 4, 4]
    assert bonuses == [100, 200, 0, 0, 300, 400, 0]
    assert [ball["rgba"] for ball in env.task.markers()] == [[0, 1, 0, 1]] * 4
    env.reset()
    assert (env.task.stage, env.task.heading) == (0, (1, 0))


@pytest.mark.parametrize(("offset", "bonus"), [(0.04, 15), (0.06, 5), (0.99, 5), (1.01, 0)])
def test_a_near_goal_pays_and_a_reached_one_pays_more(offset, bonus):
    env = start("h1-reach")
    env.step(MIDDLE)
    hand = env.task.robot.left_hand.copy()  # of this step; the same step again ends with the hand there
    env.reset(seed=0)
    env.task.goal = hand + np.array((0, offset, 0))
    observation, reward, _, _, info = env.step(MIDDLE)
    assert info["hand_dist"] == pytest.approx(offset, abs=1e-12)
    assert info["reward_close"] + info["reward_success"] == bonus
    assert reward == pytest.approx(info["healthy_reward"] - 1e-4 * info["motion_penalty"] + bonus)
    np.testing.assert_array_equal(observation[-6:], [*hand, *env.task.goal])


def test_reach_pays_the_pelvis_for_being_upright_and_takes_for_motion():
    env = start("h1-reach")
    env.data.qpos[2:7] = 3.0, 0, 1, 0, 0  # upside down in the air
    env.data.qvel[:] = 1.0
    _, reward, terminated, _, info = env.step(MIDDLE)
    assert info["healthy_reward"] == pytest.approx(-5, abs=0.01)
    assert info["motion_penalty"] == pytest.approx(np.sum(env.data.qvel**2), rel=1e-12)
    assert reward < 0
    assert not terminated


SPHERE, BOARD, BODY = "pivot_sphere_collision", "stand_board_collision", ""  # the robot's geoms have no names


@pytest.mark.parametrize("name", ["h1-balance-simple", "h1-balance-hard"])
@pytest.mark.parametrize(
    ("robot", "board", "touching", "ends"),
    [
        ((3, 0, 3), (0, 0, 0.36), {SPHERE, BOARD}, False),
        ((-0.1, 0, 1.38), (0, 0, 0.37), {BODY, BOARD}, False),
        ((3, 0, 3), (-3, 0, 3), None, False),
        ((3, 0, 0.98), (-3, 0, 3), {"floor", BODY}, True),
        ((3, 0, 3), (-3, 0, 0.03), {"floor", BOARD}, True),
        (None, (-3, 0, 3), {SPHERE, BODY}, True),
    ],
    ids=["on the sphere", "robot on board", "nothing", "robot on floor", "board on floor", "robot on sphere"],
)
def test_which_contacts_end_balancing(name, robot, board, touching, ends):
    env = start(name)
    if robot is None:  # its left foot on the sphere
        x, y, z = env.task.robot.left_foot - env.data.qpos[:3]
        robot = (-x, -y, 0.34 - z)
    for address, position in ((0, robot), (26, board)):
        env.data.qpos[address : address + 7] = *position, 1, 0, 0, 0
    *_, terminated, _, _ = env.step(MIDDLE)
    contacts = contact_names(env)
    assert touching in contacts if touching else all(BOARD not in pair for pair in contacts)
    if touching == {SPHERE, BODY}:  # and nothing else that would end it
        assert all("floor" not in pair or SPHERE in pair for pair in contacts)
    assert terminated == ends


# Bad input, frames


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: HumanoidBench("h1-sit_hard"), "did you mean 'h1-sit-hard'"),
        (lambda: HumanoidBench("xxxxxxx"), "the tasks are h1-walk, "),
        (lambda: HumanoidBench("h1-walk", "human"), "expected 'rgb_array'"),
        (lambda: start("h1-walk").step(MIDDLE[:1]), r"has shape \(1,\); h1-walk expects \(19,\)"),
    ],
)
def test_bad_input_is_refused(attempt, message):
    with pytest.raises(InputError, match=message):
        attempt()


def test_a_broken_model_file_is_named(tmp_path, monkeypatch):
    (tmp_path / "envs").mkdir()
    (tmp_path / "envs" / "h1_pos_walk.xml").write_text("<mujoco>")
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match=r"cannot load .*h1_pos_walk.xml .*; fetch it again: simbav2 assets"):
        HumanoidBench("h1-walk")


@pytest.mark.usefixtures("gl")
def test_frames_show_the_robot_and_its_goal():
    env = HumanoidBench("h1-reach", "rgb_array")
    env.reset(seed=0)
    frame = env.render().astype(int)
    env.close()
    env.close()
    assert start("h1-walk").render() is None  # made without a render mode
    assert frame.shape == (480, 480, 3)
    assert (frame[120:420, 120:360].sum(axis=-1) < 120).mean() > 0.03, "no dark robot in the middle"
    red, green, _ = np.moveaxis(frame, -1, 0)
    assert (red - green > 60).any(), "no goal to be seen"
