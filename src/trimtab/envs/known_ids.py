"""The environment ids that are known without importing the package that has them.

The lists are for looking things up: naming backends, suggesting ids, saying which package is missing. EnvPool's are in
`id_table.csv`, with the spaces of all of them.
"""

from __future__ import annotations

TABULAR_IDS = ("FrozenLake-v1", "FrozenLake8x8-v1", "CliffWalking-v1", "CliffWalkingSlippery-v1", "Taxi-v4")

NATIVE_MODULES = {  # where gymnax keeps them: importing all of gymnax takes as long as everything else together
    "CartPole-v1": "classic_control.cartpole:CartPole",
    "Pendulum-v1": "classic_control.pendulum:Pendulum",
    "Acrobot-v1": "classic_control.acrobot:Acrobot",
    "MountainCar-v0": "classic_control.mountain_car:MountainCar",
    "Asterix-MinAtar": "minatar.asterix:MinAsterix",
    "Breakout-MinAtar": "minatar.breakout:MinBreakout",
    "Freeway-MinAtar": "minatar.freeway:MinFreeway",
    "Seaquest-MinAtar": "minatar.seaquest:MinSeaquest",
    "SpaceInvaders-MinAtar": "minatar.space_invaders:MinSpaceInvaders",
    "Catch-bsuite": "bsuite.catch:Catch",
    "DeepSea-bsuite": "bsuite.deep_sea:DeepSea",
    "MemoryChain-bsuite": "bsuite.memory_chain:MemoryChain",
    "UmbrellaChain-bsuite": "bsuite.umbrella_chain:UmbrellaChain",
    "DiscountingChain-bsuite": "bsuite.discounting_chain:DiscountingChain",
    "FourRooms-misc": "misc.rooms:FourRooms",
    "MetaMaze-misc": "misc.meta_maze:MetaMaze",
    "PointRobot-misc": "misc.point_robot:PointRobot",
    "BernoulliBandit-misc": "misc.bernoulli_bandit:BernoulliBandit",
    "GaussianBandit-misc": "misc.gaussian_bandit:GaussianBandit",
    "Reacher-misc": "misc.reacher:Reacher",
    "Swimmer-misc": "misc.swimmer:Swimmer",
    "Pong-misc": "misc.pong:Pong",
}
NATIVE_IDS = tuple(NATIVE_MODULES)

NATIVE_LEFT_OUT = {
    "MountainCarContinuous-v0": "gymnax keeps the car's speed at the left wall, Gymnasium does not; "
    "backend gymnasium has it",
    "MNISTBandit-bsuite": "gymnax downloads MNIST to construct it",
    "SimpleBandit-bsuite": "gymnax redraws the arms at every reset, so at every step: all policies are equal",
    "FrozenLake-misc": "its observation is a bare state index; FrozenLake-v1 is the same game, compiled",
}

# Ids that EnvPool has too, but that Gymnasium itself should run.
GYMNASIUM_FIRST = ("MountainCarContinuous-v0",)

PROCGEN_MODES = {
    "Bigfish": "Easy Hard",
    "Bossfight": "Easy Hard",
    "Caveflyer": "Easy Hard Memory Exploration",
    "Chaser": "Easy Hard Extreme",
    "Climber": "Easy Hard Exploration",
    "Coinrun": "Easy Hard Exploration",
    "Dodgeball": "Easy Hard Extreme Memory",
    "Fruitbot": "Easy Hard",
    "Heist": "Easy Hard Memory Exploration",
    "Jumper": "Easy Hard Memory Exploration",
    "Leaper": "Easy Hard Extreme Exploration",
    "Maze": "Easy Hard Memory Exploration",
    "Miner": "Easy Hard Memory",
    "Ninja": "Easy Hard Exploration",
    "Plunder": "Easy Hard",
    "Starpilot": "Easy Hard Extreme",
}

# "procgen/starpilot-hard" -> "StarpilotHard-v0"
PROCGEN_ALIASES = {
    f"procgen/{game.lower()}-{mode.lower()}": f"{game}{mode}-v0"
    for game, modes in PROCGEN_MODES.items()
    for mode in modes.split()
}

PGX_IDS = (
    "2048",
    "minatar-asterix",
    "minatar-breakout",
    "minatar-freeway",
    "minatar-seaquest",
    "minatar-space_invaders",
)

_XMINIGRID = """
BlockedUnlockPickUp DoorKey-5x5 DoorKey-6x6 DoorKey-8x8 DoorKey-16x16 Empty-5x5 Empty-6x6 Empty-8x8 Empty-16x16
EmptyRandom-5x5 EmptyRandom-6x6 EmptyRandom-8x8 EmptyRandom-16x16 FourRooms LockedRoom MemoryS8 MemoryS16 MemoryS32
MemoryS64 MemoryS128 Playground Unlock UnlockPickUp
"""
XMINIGRID_IDS = tuple(f"MiniGrid-{task}" for task in _XMINIGRID.split())

# MuJoCo Playground: what its package holds whole, and what it loads from the MuJoCo Menagerie.
_PLAYGROUND = """
AcrobotSwingup AcrobotSwingupSparse BallInCup CartpoleBalance CartpoleBalanceSparse CartpoleSwingup
CartpoleSwingupSparse CheetahRun FingerSpin FingerTurnEasy FingerTurnHard FishSwim HopperHop HopperStand HumanoidRun
HumanoidStand HumanoidWalk PendulumSwingup PointMass ReacherEasy ReacherHard SwimmerSwimmer6 WalkerRun WalkerStand
WalkerWalk
"""
PLAYGROUND_IDS = tuple(_PLAYGROUND.split())
_ROBOTS = """
AeroCubeRotateZAxis AlohaHandOver AlohaSinglePegInsertion ApolloJoystickFlatTerrain BarkourJoystick
BerkeleyHumanoidJoystickFlatTerrain BerkeleyHumanoidJoystickRoughTerrain G1JoystickFlatTerrain G1JoystickRoughTerrain
Go1Footstand Go1Getup Go1Handstand Go1JoystickFlatTerrain Go1JoystickRoughTerrain H1InplaceGaitTracking
H1JoystickGaitTracking LeapCubeReorient LeapCubeRotateZAxis Op3Joystick PandaOpenCabinet PandaPickCube
PandaPickCubeCartesian PandaPickCubeOrientation PandaRobotiqPushCube SpotFlatTerrainJoystick SpotGetup
SpotJoystickGaitTracking T1JoystickFlatTerrain T1JoystickRoughTerrain
"""
PLAYGROUND_ROBOTS = tuple(_ROBOTS.split())


def canonical(env_id: str) -> str:
    """The id a backend knows: friendly Procgen names are translated, everything else is left alone."""
    return PROCGEN_ALIASES.get(env_id.lower(), env_id)
