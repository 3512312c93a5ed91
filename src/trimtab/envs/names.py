"""The environment ids that are known without importing the package that has them.

The lists are for looking things up: naming backends, suggesting ids, saying which package is missing.
`native` and `tabular` are complete; of EnvPool only the families people come for are listed, and `make`
accepts every id EnvPool itself knows.
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

_ATARI = """
Adventure AirRaid Alien Amidar Assault Asterix Asteroids Atlantis Atlantis2 Backgammon BankHeist BasicMath
BattleZone BeamRider Berzerk Blackjack Bowling Boxing Breakout Carnival Casino Centipede ChopperCommand
CrazyClimber Crossbow Darkchambers Defender DemonAttack DonkeyKong DoubleDunk Earthworld ElevatorAction Enduro
Entombed Et FishingDerby FlagCapture Freeway Frogger Frostbite Galaxian Gopher Gravitar Hangman HauntedHouse
Hero HumanCannonball IceHockey Jamesbond JourneyEscape Kaboom Kangaroo KeystoneKapers KingKong Klax Koolaid
Krull KungFuMaster LaserGates LostLuggage MarioBros MiniatureGolf MontezumaRevenge MrDo MsPacman NameThisGame
Othello Pacman Phoenix Pitfall Pitfall2 Pong Pooyan PrivateEye Qbert Riverraid RoadRunner Robotank Seaquest
SirLancelot Skiing Solaris SpaceInvaders SpaceWar StarGunner Superman Surround Tennis Tetris TicTacToe3d
TimePilot Trondead Turmoil Tutankham UpNDown Venture VideoCheckers VideoChess VideoCube VideoPinball
WizardOfWor WordZapper YarsRevenge Zaxxon
"""

_MUJOCO = """
Ant-v3 Ant-v4 Ant-v5 HalfCheetah-v3 HalfCheetah-v4 HalfCheetah-v5 Hopper-v3 Hopper-v4 Hopper-v5 Humanoid-v3
Humanoid-v4 Humanoid-v5 HumanoidStandup-v2 HumanoidStandup-v4 HumanoidStandup-v5 InvertedDoublePendulum-v2
InvertedDoublePendulum-v4 InvertedDoublePendulum-v5 InvertedPendulum-v2 InvertedPendulum-v4
InvertedPendulum-v5 Pusher-v2 Pusher-v4 Pusher-v5 Reacher-v2 Reacher-v4 Reacher-v5 Swimmer-v3 Swimmer-v4
Swimmer-v5 Walker2d-v3 Walker2d-v4 Walker2d-v5
"""

ATARI_IDS = tuple(f"{game}-v5" for game in _ATARI.split())

ENVPOOL_IDS = (
    *ATARI_IDS,
    *_MUJOCO.split(),
    *PROCGEN_ALIASES.values(),
    "CartPole-v1",
    "Pendulum-v1",
    "Acrobot-v1",
    "MountainCar-v0",
    "MountainCarContinuous-v0",
)


def canonical(env_id: str) -> str:
    """The id a backend knows: friendly Procgen names are translated, everything else is left alone."""
    return PROCGEN_ALIASES.get(env_id.lower(), env_id)
